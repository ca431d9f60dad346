//! What a refusal of a service that speaks AWS's JSON protocols says of what comes next: one table for all that ask one.

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Nothing was done, and it may go later.
    Later,
    /// It broke: what it had done by then is not known.
    Broken,
    /// Who asks may not.
    Rights,
    /// Who asks is not known.
    Credentials,
    /// Not so.
    No,
}

/// Of HTTP's status and the service's code.
pub(crate) fn meaning(status: u16, code: &str) -> Meaning {
    match (status, code) {
        (
            _,
            "ThrottlingException" | "Throttling" | "TooManyRequestsException" | "RequestLimitExceeded" | "SlowDown",
        )
        | (429, _) => Meaning::Later,
        (500.., _) | (_, "InternalServiceException" | "OperationTimeoutException" | "InternalServerErrorException") => {
            Meaning::Broken
        }
        (
            _,
            "UnrecognizedClientException"
            | "InvalidSignatureException"
            | "IncompleteSignatureException"
            | "MissingAuthenticationTokenException"
            | "ExpiredTokenException"
            | "InvalidClientTokenId"
            | "RequestExpired",
        )
        | (401, _) => Meaning::Credentials,
        (_, "AccessDeniedException") | (403, _) => Meaning::Rights,
        _ => Meaning::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_go_before_statuses() {
        let check = |status, code, expected| assert_eq!(meaning(status, code), expected, "{status} {code}");
        check(400, "ThrottlingException", Meaning::Later);
        check(503, "SlowDown", Meaning::Later);
        check(429, "", Meaning::Later);
        check(503, "ServiceUnavailable", Meaning::Broken);
        check(400, "OperationTimeoutException", Meaning::Broken);
        check(400, "AccessDeniedException", Meaning::Rights);
        check(403, "InvalidSignatureException", Meaning::Credentials);
        check(403, "", Meaning::Rights);
        check(400, "EntityNotFoundException", Meaning::No);
    }
}
