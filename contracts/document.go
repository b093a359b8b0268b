package contracts

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// Documents that describe whole interfaces.
const (
	OpenAPI  = "openapi"  // the HTTP interface, OpenAPI 3.1
	AsyncAPI = "asyncapi" // the bus as integrators see it, AsyncAPI 3.0
)

//go:embed openapi.yaml asyncapi.yaml
var documents embed.FS

// Names are the documents, and the schemas in order, as Text takes them: "openapi", "asyncapi", "answer.v1" and so on.
func Names() []string {
	files, _ := fs.Glob(Schemas(), "*.json") // the pattern is good
	for i, file := range files {
		files[i] = strings.TrimSuffix(file, ".json")
	}
	slices.Sort(files)
	return append([]string{OpenAPI, AsyncAPI}, files...)
}

// Text is the schema (JSON) or document (YAML) of a name. A document has the schemas in it that it refers to, so that
// it stands alone. The error of a name that there is not says what there is.
func Text(name string) ([]byte, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("no contract is called %q; there are: %s", name, strings.Join(Names(), ", "))
	}
	if name != OpenAPI && name != AsyncAPI {
		return schemas.ReadFile("schemas/" + name + ".json")
	}
	text, err := documents.ReadFile(name + ".yaml")
	if err != nil {
		return nil, err
	}
	return bundled(text), nil
}

var (
	// schemaRef is a line that refers to a schema's file. JSON is YAML, so the file's text can stand in its place.
	schemaRef = regexp.MustCompile(`(?m)^( +)\$ref: (schemas/[a-z0-9_.]+\.json)$`)
	// schemaIdentity is what a schema says of itself as a file of its own. Inside a document it would make every tool
	// look for the schema's references elsewhere, and some refuse an id that they meet twice.
	schemaIdentity = regexp.MustCompile(`(?m)^ *"\$(schema|id)": ".*",\n`)
)

func bundled(document []byte) []byte {
	return schemaRef.ReplaceAllFunc(document, func(line []byte) []byte {
		parts := schemaRef.FindSubmatch(line)
		text, err := schemas.ReadFile(string(parts[2]))
		if err != nil {
			return line // a test keeps every reference in order
		}
		text = schemaIdentity.ReplaceAll(text, nil)
		indent := string(parts[1])
		return []byte(indent + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n"+indent))
	})
}
