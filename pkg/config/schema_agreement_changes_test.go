package config

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// exception is a difference between the loader and the schemas that is meant.
type exception struct {
	says   *regexp.Regexp
	reason string
}

// beyondShape are complaints of the loader about what the schema of one file cannot see. Besides these, it refuses
// anchors, tags, merge keys and numbers that are not plainly decimal, of which a schema sees the values alone.
var beyondShape = []exception{
	{regexp.MustCompile(`^cel (is not valid|yields)`), "an expression is compiled"},
	{regexp.MustCompile(`^the template `), "a template is parsed and filled in"},
	{regexp.MustCompile(`^there is no file `), "another file is missing"},
	{regexp.MustCompile(`which is no time zone of the IANA's`), "a time zone is looked up"},
	{regexp.MustCompile(`, which must (not be longer than|be shorter than|not be more than) `),
		"two settings are compared by size"},
	{regexp.MustCompile(`versions must ascend|must be an earlier version of this source`), "versions are in order"},
	{regexp.MustCompile(`^the key of version \d+ reads `), "the key has to come from what is signed"},
	{regexp.MustCompile(`^payload is .*timestamp`), "a timestamp is signed if and only if there is one"},
	{regexp.MustCompile(`^failed has ".*", which succeeded has too`), "no value has two meanings"},
	{regexp.MustCompile(`^allowed_hosts lacks `), "the host of an address has to be among the allowed"},
	{regexp.MustCompile(`^tls is none|^base_url is http to another machine|^issuer is "http:`),
		"what is not encrypted stays on the machine, which a pattern cannot tell"},
	{regexp.MustCompile(`^(base_url|url|token_url) must have no user`), "the parts of an address are looked at"},
	{regexp.MustCompile(`^(secret|value) must be whsec_ and the base64`), "a secret has a length in bytes"},
	{regexp.MustCompile(`^(basic|api_key|oauth2|hmac) and .* are both set|^conditional must have |` +
		`is for a version in a header|needs where, or|needs error_code, where`),
		"what has shipped takes no new condition between settings"},
	{regexp.MustCompile(`^profile is for kind http|^webhook_secrets is for |^operations is missing; it must list at least one operation`),
		"what a profile has is not seen"},
	{regexp.MustCompile(`^conditional is in the body, which must have`), "another setting is looked into"},
	{regexp.MustCompile(`(bearer|api_key)_env are both set`),
		"of two that are written, the environment may leave one empty"},
	{regexp.MustCompile(`^(url|base_url|token_url|server|bearer_env|api_key_env) (is|has) "(x|\$\{NAME)"`),
		"the environment fills in what is wrong"},
	{regexp.MustCompile(`found the value (7\.0|1\.0e3)$`),
		"a number is taken as it is written, and a schema sees its value"},
	{regexp.MustCompile(`must be a positive duration .* "(9999999h|0\.1ns)"$`), "a duration has a longest and a shortest"},
}

// beyond is why a complaint is none that a schema could have; "" where it could.
func beyond(complaint string) string {
	for _, one := range beyondShape {
		if one.says.MatchString(complaint) {
			return one.reason
		}
	}
	return ""
}

// exceptions are the reasons of all of them.
func exceptions() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, one := range beyondShape {
			if !yield(one.reason) {
				return
			}
		}
	}
}

// Values of which most are wrong anywhere, and those that may be right for a list or a number.
var (
	strange        = []any{true, false, json.Number("7"), []any{}, map[string]any{}, "☹ no such text"}
	strangeLists   = []any{[]any{nil}, []any{""}, []any{"a", "a"}, []any{json.Number("7")}, []any{map[string]any{}}}
	strangeNumbers = []any{json.Number("-1"), json.Number("1.5"), json.Number("7.0"), json.Number("1.0e3")}
)

// shapely are texts of which each is right somewhere, or nearly.
var shapely = []any{"7", "a", "A", "a.b", "a b", "a_b", "a-b", "a@1", "a@0", "a@b", "a@b@c", "/", "/a~0/~1", "/a~2",
	"a/b", "a.json", "a/b.json", "a.tmpl", "1s", "0s", "-1s", "+1h30m", ".5h", "1.h", "1d", "1h 2m", "0.1ns", "9999999h",
	"http://h", "HTTPS://h/p", "ftp://h", "https://", "https://h?q=1", "https://u@h", "h:1", ":1", "h:port", "[::1]:1",
	"${NAME:-x}", "${NAME", "demo_0123456789abcdef", "whsec_demo_0123456789abcdef", "hidden", "{body}",
	"{timestamp}.{body}", "{body}{id}", "1e3", "1.50", "-0.5", "007", strings.Repeat("a", 33), strings.Repeat("a", 65),
	strings.Repeat("a", 129), strings.Repeat("0", 64), strings.Repeat("9", 40)}

// changes are copies of the file with one place changed, each with where that is. Some of them are still right, and
// most are wrong. Values are tried once for each place, and members are taken away and added for each set of them that is
// there: what may stand beside what depends on the rest.
func (a *agreement) changes() iter.Seq2[string, any] {
	samples := map[string][]any{}
	for _, s := range a.spots(a.tree) {
		same := func(other any) bool { return reflect.DeepEqual(s.value, other) }
		if !slices.ContainsFunc(samples[s.where], same) {
			samples[s.where] = append(samples[s.where], s.value)
		}
	}
	return func(yield func(string, any) bool) {
		seen, patterns := map[string]bool{}, map[string]bool{}
		for _, part := range a.parts() {
			for _, s := range a.spots(part) {
				var trees []any
				if !seen[s.where] {
					trees = s.valueChanges(samples, patterns)
				}
				if object, ok := s.value.(map[string]any); ok && !seen[s.where+members(object)] {
					trees = append(trees, s.memberChanges(object, samples)...)
					seen[s.where+members(object)] = true
				}
				seen[s.where] = true
				for _, tree := range trees {
					if !yield(s.where, tree) {
						return
					}
				}
			}
		}
	}
}

// valueChanges try a pattern with all texts at its first place in a file, and with some of them at the others.
func (s spot) valueChanges(samples map[string][]any, patterns map[string]bool) []any {
	enum, _ := s.schema["enum"].([]any)
	values := slices.Concat(strange, samples[s.where], enum)
	if !s.optional {
		values = append(values, nil, "", " ")
	}
	if s.schema["type"] == "array" {
		values = append(values, strangeLists...)
	}
	_, bounded := s.schema["minimum"]
	if bounded || s.schema["exclusiveMinimum"] != nil {
		values = append(values, strangeNumbers...)
	}
	for _, bound := range []string{"minimum", "maximum"} {
		if n, ok := s.schema[bound].(json.Number); ok {
			i, _ := n.Int64() // a bound is a whole number, which is compared with the loader's
			values = append(values, i-1, i, i+1)
		}
	}
	if pattern, _ := s.schema["pattern"].(string); pattern != "" && pattern != `\S` {
		for i, text := range shapely {
			if !patterns[pattern] || i%8 == len(s.where)%8 {
				values = append(values, text)
			}
		}
		patterns[pattern] = true
	}
	trees := make([]any, len(values))
	for i, value := range values {
		trees[i] = s.put(value)
	}
	return trees
}

func members(object map[string]any) string { return fmt.Sprint(slices.Sorted(maps.Keys(object))) }

func (s spot) memberChanges(object map[string]any, samples map[string][]any) []any {
	if s.schema["type"] == nil {
		return nil // of any shape
	}
	trees := []any{s.member("no_such_setting", "x"), s.member("No Such", "x"), s.member("email", []any{"x"})}
	for name := range object {
		trees = append(trees, s.member(name, nothing{}))
	}
	properties, _ := s.schema["properties"].(map[string]any)
	for name := range properties {
		if _, there := object[name]; there {
			continue
		}
		for _, value := range samples[s.where+"."+name] {
			trees = append(trees, s.member(name, value))
		}
	}
	return trees
}
