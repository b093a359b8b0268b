package config

import (
	"embed"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

//go:embed profiles/*.yaml
var profileFiles embed.FS

// profilesDir holds one file a profile, named by it. It is no part of a configuration directory.
const profilesDir = "profiles"

// Profiles are the names of the profiles that connectors may have, in order.
func Profiles() []string {
	entries, err := profileFiles.ReadDir(profilesDir)
	if err != nil {
		panic(err) // it is a part of the program
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = strings.TrimSuffix(entry.Name(), ".yaml")
	}
	return names
}

// ProfileText is a profile as it is shipped: the YAML of a connector without id, address and credential, and in comments where each
// claim comes from. False where there is none of that name.
func ProfileText(name string) (string, bool) {
	text, err := profileFiles.ReadFile(profileFile(name))
	return string(text), err == nil
}

func profileFile(name string) string { return path.Join(profilesDir, name+".yaml") }

// withProfile is the connector with what it leaves to its profile. What the tenant declares wins: members replace the profile's, and
// operations those of the same name, both as a whole. A profile's webhook counts only with secrets of the tenant's (webhook_secrets).
// All that a profile lends stands where the tenant named the profile, so that complaints lead into the tenant's file.
func (d *declared) withProfile(part *object) *object {
	name := part.oneOf("profile", append(Profiles(), "")...)
	secrets := part.take("webhook_secrets")
	text, known := ProfileText(name)
	if name == "" && secrets != nil {
		part.fail("webhook_secrets", "is for a connector with a profile; a webhook that is declared here has signature.secrets")
	}
	if !known {
		return part // there is none, or it has been complained of
	}
	if kind, _ := textOf(part.take("kind")); kind != "" && kind != ConnectorHTTP {
		part.fail("profile", "is for kind http; this connector's kind is %s", kind)
		return part
	}
	d.loader.files[profileFile(name)] = []byte(text) // the version of a configuration is also that of its profiles
	lent := lend(part, text)
	if lent == nil {
		return part
	}
	lent.lendWebhook(part, name, secrets)
	return part.completed(lent)
}

// lend reads a profile as if it stood where the tenant named it.
func lend(part *object, text string) *object {
	parsed, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		part.fail("profile", "cannot be read: %v", err)
		return nil
	}
	ast.Walk(placed(part.at("profile")), parsed.Docs[0].Body)
	return newObject(part.problems, part.pos.File, parsed.Docs[0].Body)
}

// placed moves all that it visits to one place.
type placed Position

// Visit is of ast.Visitor.
func (p placed) Visit(node ast.Node) ast.Visitor {
	if token := node.GetToken(); token != nil && token.Position != nil {
		token.Position.Line, token.Position.Column = p.Line, p.Column
	}
	return p
}

// lendWebhook puts the tenant's secrets into the profile's webhook, or takes it away where there are none: what is not signed could
// come from anybody.
func (o *object) lendWebhook(part *object, name string, secrets ast.Node) {
	hook := o.object("webhook")
	switch {
	case secrets == nil:
	case part.take("webhook") != nil:
		part.fail("webhook_secrets", "is for the profile's webhook; the one that is declared here has signature.secrets")
	case hook == nil:
		part.fail("webhook_secrets", "is for a profile with a webhook, and %s has none", name)
	default:
		entries := hook.take("signature").(*ast.MappingNode).Values
		i := slices.IndexFunc(entries, func(e *ast.MappingValueNode) bool { return e.Key.String() == "secrets" })
		entries[i].Value = secrets
		return
	}
	o.members = slices.DeleteFunc(o.members, func(m member) bool { return m.name == "webhook" })
}

// completed has the members of both, the object's own first.
func (o *object) completed(lent *object) *object {
	both := &object{problems: o.problems, pos: o.pos}
	for _, m := range o.members {
		if from := lent.take(m.name); m.value == nil && from != nil {
			continue // nothing after the colon counts as left out
		} else if m.name == "operations" {
			m.value = withOperations(m.value, from)
		}
		both.members = append(both.members, m)
	}
	both.members = append(both.members, lent.members...) // of one name, the first counts
	both.take("profile")
	both.take("webhook_secrets")
	return both
}

// withOperations adds those of the profile's operations that have no namesake. What is no list of operations is left to complaints.
func withOperations(own, lent ast.Node) ast.Node {
	list, ok := own.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		return own
	}
	var names []string
	for _, node := range list.Values {
		names = append(names, nameOf(node))
	}
	both := *list
	both.Values = slices.Clone(list.Values)
	for _, node := range lent.(*ast.SequenceNode).Values {
		if !slices.Contains(names, nameOf(node)) {
			both.Values = append(both.Values, node)
		}
	}
	return &both
}

// nameOf is what a mapping has as its name, "" where it is none.
func nameOf(node ast.Node) string {
	mapping, ok := node.(*ast.MappingNode)
	if !ok {
		return ""
	}
	name, _ := textOf(newObject(new(problems), "", mapping).take("name"))
	return name
}
