//! `sasl.jaas.config`: how Java's clients are told who they are. One line, one login module:
//! `<class> required <option>="<value>" …;` (the format of a JAAS configuration entry, without its braces).

use std::collections::BTreeMap;

/// A login module with its options.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    /// The class, without its package.
    pub(crate) module: String,
    pub(crate) options: BTreeMap<String, String>,
}

/// What is wrong, without the text: it holds passwords.
pub(crate) type Wrong = &'static str;

/// Reads one entry.
pub(crate) fn parse(text: &str) -> Result<Login, Wrong> {
    let mut tokens = tokens(text)?.into_iter().peekable();
    let Some(Token::Word(class)) = tokens.next() else {
        return Err("it must begin with the class of a login module");
    };
    let Some(Token::Word(flag)) = tokens.next() else {
        return Err("a control flag must follow the class, `required` as a rule");
    };
    if !["required", "requisite", "sufficient", "optional"].contains(&flag.to_ascii_lowercase().as_str()) {
        return Err("a control flag must follow the class, `required` as a rule");
    }
    let mut options = BTreeMap::new();
    loop {
        match tokens.next() {
            Some(Token::End) if tokens.peek().is_none() => break,
            Some(Token::End) => return Err("it must hold one login module"),
            Some(Token::Word(name)) => {
                let (Some(Token::Equals), Some(Token::Word(value) | Token::Quoted(value))) =
                    (tokens.next(), tokens.next())
                else {
                    return Err("an option must be `name=\"value\"`");
                };
                options.insert(name, value);
            }
            Some(_) => return Err("an option must be `name=\"value\"`"),
            None => return Err("it must end with `;`"),
        }
    }
    let module = class.rsplit('.').next().unwrap_or(&class).to_owned();
    Ok(Login { module, options })
}

enum Token {
    Word(String),
    Quoted(String),
    Equals,
    End,
}

fn tokens(text: &str) -> Result<Vec<Token>, Wrong> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => {}
            '=' => tokens.push(Token::Equals),
            ';' => tokens.push(Token::End),
            '"' => {
                let mut value = String::new();
                loop {
                    match chars.next() {
                        None => return Err("a quotation mark is not closed"),
                        Some('"') => break,
                        Some('\\') => value.extend(chars.next()),
                        Some(c) => value.push(c),
                    }
                }
                tokens.push(Token::Quoted(value));
            }
            first => {
                let mut word = first.to_string();
                while let Some(c) = chars.next_if(|c| !c.is_whitespace() && !matches!(c, '=' | ';' | '"')) {
                    word.push(c);
                }
                tokens.push(Token::Word(word));
            }
        }
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_its_module_and_options() {
        let login = parse(
            "org.apache.kafka.common.security.scram.ScramLoginModule required\n username=\"a;b\" password=\"x\\\"=y\" flag=true;",
        )
        .unwrap_or_else(|wrong| panic!("{wrong}"));
        assert_eq!(login.module, "ScramLoginModule");
        let options: Vec<(&str, &str)> = login.options.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(options, [("flag", "true"), ("password", "x\"=y"), ("username", "a;b")]);
        let bare =
            parse("software.amazon.msk.auth.iam.IAMLoginModule required;").unwrap_or_else(|wrong| panic!("{wrong}"));
        assert!(bare.module == "IAMLoginModule" && bare.options.is_empty());
    }

    #[test]
    fn what_is_no_entry_is_said() {
        for (text, wrong) in [
            ("", "class"),
            ("A", "control flag"),
            ("A maybe;", "control flag"),
            ("A required", "end with"),
            ("A required x;", "name="),
            ("A required x=;", "name="),
            ("A required x=\"y;", "not closed"),
            ("A required; B required;", "one login module"),
        ] {
            assert!(parse(text).is_err_and(|said| said.contains(wrong)), "{text}");
        }
    }
}
