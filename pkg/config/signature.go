package config

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/google/cel-go/cel"

	"github.com/holdpoint/holdpoint/pkg/signature"
)

// readSignature is nil where the source has no such block. Where the secrets are is declared; whoever verifies reads
// them.
func readSignature(o *object, rules []*SourceRules) *signature.Config {
	part := o.object("signature")
	if part == nil {
		return nil
	}
	s := &signature.Config{Format: signature.Format{Scheme: part.oneOf("scheme", signature.Schemes...)}}
	s.Secrets = readSigningSecrets(part, s.Scheme)
	readHMAC(part, &s.Format)
	s.Tolerance = part.duration("tolerance", signature.DefaultTolerance)
	if part.take("tolerance") != nil && !s.Stamped() {
		part.fail("tolerance", "is for signatures with a timestamp; this one has none")
	}
	part.close()
	if len(rules) > 0 {
		checkSignedKey(o, &s.Format, rules[len(rules)-1])
	}
	return s
}

// readHMAC reads what the scheme hmac leaves open, and refuses it beside a scheme that does not.
func readHMAC(o *object, f *signature.Format) {
	own := []string{"header", "encoding", "prefix", "algorithm", "timestamp_header", "payload"}
	if f.Scheme != signature.HMAC {
		for _, name := range own {
			if o.take(name) != nil {
				o.fail(name, "is for scheme %s; the other schemes have their own", signature.HMAC)
			}
		}
		return
	}
	f.Header = o.id("header", header)
	f.Encoding = o.oneOf("encoding", signature.Encodings...)
	f.Prefix = o.optText("prefix")
	f.Algorithm = o.oneOf("algorithm", append([]string{""}, signature.Algorithms...)...)
	f.TimestampHeader = o.optID("timestamp_header", header)
	f.Payload = o.optText("payload")
	if err := f.CheckPayload(); err != nil {
		o.fail("payload", "%v", err)
	}
}

// readSigningSecrets reads where the secrets are. Complaints never quote what was written: it may be a secret in the
// wrong place.
func readSigningSecrets(o *object, scheme string) []signature.Secret {
	const places = "{env: NAME} or {file: PATH}"
	list, ok := o.take("secrets").(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		o.fail("secrets", "must list at least one of %s; any of them may match", places)
		return nil
	}
	var secrets []signature.Secret
	for i, node := range list.Values {
		if _, mapping := node.(*ast.MappingNode); !mapping {
			o.problems.add(position(o.pos.File, node), "secrets[%d] must be %s", i, places)
			continue
		}
		secrets = append(secrets, readSigningSecret(newObject(o.problems, o.pos.File, node), scheme))
	}
	return secrets
}

func readSigningSecret(o *object, scheme string) signature.Secret {
	values, given := map[string]string{}, 0
	for _, name := range []string{"env", "file", "value"} {
		node := o.take(name)
		if node == nil {
			continue
		}
		given++
		text, ok := textOf(node)
		if values[name] = strings.TrimSpace(text); !ok || values[name] == "" {
			o.fail(name, "must be a text in quotes")
		}
	}
	if given != 1 {
		o.problems.add(o.pos, "a secret must have exactly one of env, file; it has %d", given)
	}
	if env := values["env"]; env != "" && !variable.pattern.MatchString(env) {
		o.fail("env", "must be %s", variable.words)
	}
	if value := values["value"]; value != "" {
		checkLiteralSecret(o, scheme, value)
	}
	o.close()
	return signature.Secret{Env: values["env"], File: values["file"], Value: values["value"]}
}

// checkLiteralSecret lets only such secrets stand in a file as say of themselves that they are none: a file of the
// configuration is copied, mounted and committed.
func checkLiteralSecret(o *object, scheme, value string) {
	if !strings.HasPrefix(value, "demo_") && !strings.HasPrefix(value, "whsec_demo") {
		o.fail("value", "is for demonstrations, and must begin with demo_ or whsec_demo; keep a secret out of this file "+
			"with env or file")
		return
	}
	if err := signature.CheckText(scheme, value); err != nil {
		o.fail("value", "%v", err)
	}
}

// checkSignedKey refuses a key that the signature does not cover. Whoever has seen a delivery can send it again; that
// is a duplicate only as long as they cannot send it under another key (K1, K3).
func checkSignedKey(o *object, f *signature.Format, rule *SourceRules) {
	reads := ""
	switch key := rule.Key; {
	case key.Header != "" && !strings.EqualFold(key.Header, f.IDHeader()):
		reads = "the header " + key.Header
	case key.CloudEvent:
		reads = "headers in CloudEvents' binary mode"
	case key.CEL != "" && readsHeaders(key.CEL):
		reads = "headers"
	default:
		return
	}
	instead := "the body, by pointers or cel"
	if id := f.IDHeader(); id != "" {
		instead = fmt.Sprintf("the header %s, or %s", id, instead)
	}
	o.problems.add(o.at("rules"), "the key of version %d reads %s, which the signature does not cover: a delivery that "+
		"was seen could be sent again under another key. Take the key from %s", rule.Version, reads, instead)
}

// readsHeaders reports whether a key expression needs more than the body.
func readsHeaders(expression string) bool {
	env, err := cel.NewEnv(cel.Variable("body", cel.DynType))
	if err != nil {
		return true
	}
	_, issues := env.Compile(expression)
	return issues.Err() != nil
}
