package config

import "regexp"

// variableRef is ${NAME} or ${NAME:-default}.
var variableRef = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}`)

// expand reads variables out of the environment. Only what differs between installations of one configuration may do
// so: where a system is, and where its credential is found or the credential itself. Rules, schemas and actions mean the
// same everywhere.
func (l *loader) expand(o *object, name, text string) string {
	return variableRef.ReplaceAllStringFunc(text, func(ref string) string {
		parts := variableRef.FindStringSubmatch(ref)
		if value, ok := l.getenv(parts[1]); ok && value != "" {
			return value
		}
		if len(ref) == len("${}")+len(parts[1]) {
			o.fail(name, "needs the environment variable %s, which is not set and has no default; set it or write ${%s:-value}",
				parts[1], parts[1])
		}
		return parts[2]
	})
}
