import java.io.IOException;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;

/**
 * What a broker of Amazon MSK looks at in a token of its IAM logins, but for the signature: that is for the test, which
 * knows the secrets and finds each accepted token in the file `tokens` beside this class's folder.
 */
public final class BearerCheck implements AuthenticateCallbackHandler {
    /** Access keys that may connect begin like this. */
    private static final String KNOWN = "AKIDKNOWN";

    private static final DateTimeFormatter TIME =
        DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'").withZone(ZoneOffset.UTC);

    @Override
    public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {}

    @Override
    public void close() {}

    @Override
    public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
        for (Callback callback : callbacks) {
            if (!(callback instanceof OAuthBearerValidatorCallback asked)) {
                throw new UnsupportedCallbackException(callback);
            }
            try {
                asked.token(check(asked.tokenValue()));
            } catch (IllegalArgumentException wrong) {
                System.out.println("a token was refused: " + wrong.getMessage());
                asked.error("invalid_token", null, null);
            }
        }
    }

    private static OAuthBearerToken check(String token) throws IOException {
        must(!token.contains("="), "no padding");
        URI url = URI.create(new String(Base64.getUrlDecoder().decode(token), StandardCharsets.UTF_8));
        Map<String, String> query = new LinkedHashMap<>();
        for (String pair : url.getRawQuery().split("&")) {
            String[] parts = pair.split("=", 2);
            must(query.put(parts[0], URLDecoder.decode(parts[1], StandardCharsets.UTF_8)) == null, "each parameter once");
        }
        String[] credential = query.get("X-Amz-Credential").split("/");
        must(credential.length == 5 && credential[0].startsWith(KNOWN), "a known access key");
        must(credential[3].equals("kafka-cluster") && credential[4].equals("aws4_request"), "the service's scope");
        must("https".equals(url.getScheme()) && url.getPath().equals("/"), "https and no path");
        must(url.getHost().equals("kafka." + credential[2] + ".amazonaws.com"), "the region's host");
        must("kafka-cluster:Connect".equals(query.get("Action")), "the action");
        must("AWS4-HMAC-SHA256".equals(query.get("X-Amz-Algorithm")), "the algorithm");
        must("host".equals(query.get("X-Amz-SignedHeaders")), "the host alone is signed");
        must("900".equals(query.get("X-Amz-Expires")), "a quarter of an hour");
        must(query.get("X-Amz-Date").startsWith(credential[1]), "one date");
        must(query.get("User-Agent").startsWith("frazil/"), "a user agent");
        long from = Instant.from(TIME.parse(query.get("X-Amz-Date"))).toEpochMilli();
        long now = System.currentTimeMillis();
        must(from <= now + 5_000 && now < from + 900_000, "a time that holds");

        Path classes = Path.of(BearerCheck.class.getProtectionDomain().getCodeSource().getLocation().getPath());
        Files.writeString(classes.resolveSibling("tokens"), token + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        return new OAuthBearerToken() {
            @Override
            public String value() {
                return token;
            }

            @Override
            public Set<String> scope() {
                return Set.of();
            }

            @Override
            public long lifetimeMs() {
                return from + 900_000;
            }

            @Override
            public String principalName() {
                return credential[0];
            }

            @Override
            public Long startTimeMs() {
                return from;
            }
        };
    }

    private static void must(boolean holds, String what) {
        if (!holds) {
            throw new IllegalArgumentException("it must have " + what);
        }
    }
}
