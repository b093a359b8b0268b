package contracts

import (
	"embed"
	"io/fs"
)

//go:embed schemas/*.json
var schemas embed.FS

// Schemas are the JSON Schemas (draft 2020-12) of everything in this package, each named as in "run.completed.v1.json".
func Schemas() fs.FS {
	sub, _ := fs.Sub(schemas, "schemas") // the embedded folder is there
	return sub
}

// ProposalSchema is the JSON Schema of a Proposal. It refuses unknown members (M2); the shape of proposed_change is
// left to the schema of the action type.
func ProposalSchema() []byte {
	data, _ := schemas.ReadFile("schemas/proposal.v1.json") // embedded
	return data
}

// PlanSchema is the JSON Schema of a Proposal of several actions.
func PlanSchema() []byte {
	data, _ := schemas.ReadFile("schemas/plan.v1.json") // embedded
	return data
}
