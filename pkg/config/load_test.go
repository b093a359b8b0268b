package config_test

import (
	"io/fs"
	"maps"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/config/configtest"
)

// world is the example configuration in memory, to be broken in one place.
type world struct {
	t   testing.TB
	fs  fstest.MapFS
	env map[string]string
	// unproven leaves checks.yaml as the files have it; else all that they declare counts, and no case has to think of it.
	unproven bool
	declared string // connectors.yaml as the example has it, which is what its checks are of
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, fs: fstest.MapFS{}, env: map[string]string{}}
	dir := os.DirFS(exampleDir)
	require.NoError(t, fs.WalkDir(dir, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(dir, name)
		w.fs[name] = &fstest.MapFile{Data: data}
		return err
	}))
	w.declared = string(w.fs[demo+"connectors.yaml"].Data)
	return w
}

func (w *world) load() (*config.Config, error) {
	files := maps.Clone(w.fs)
	if text := w.fs[demo+"connectors.yaml"]; !w.unproven && text != nil && string(text.Data) != w.declared {
		attested, _ := configtest.Attested(w.fs, w.getenv) // what is wrong, the load below says too
		for name, text := range attested {
			files[name] = &fstest.MapFile{Data: text}
		}
	}
	return config.LoadEnv(files, w.getenv)
}

func (w *world) getenv(name string) (string, bool) { value, ok := w.env[name]; return value, ok }

const demo = "tenants/demo/"

func (w *world) replace(file, old, new string) {
	w.t.Helper()
	text := string(w.fs[demo+file].Data)
	require.Contains(w.t, text, old, "the case must change something")
	w.fs[demo+file] = &fstest.MapFile{Data: []byte(strings.Replace(text, old, new, 1))}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()

	cases := []struct {
		name, file, old, new string
		says                 []string
	}{
		{"BrokenYAMLWithItsPlace", "tenant.yaml", "scopes: [publish, work, read]", "scopes: [publish",
			[]string{"tenants/demo/tenant.yaml:13:1: not valid YAML"}},
		{"ARepeatedSetting", "tenant.yaml", "display_name: Demo", "display_name: Demo\ndisplay_name: Other",
			[]string{`tenant.yaml:3:1: not valid YAML: mapping key "display_name" already defined`}},
		{"AnUnknownSettingAndNamesTheKnown", "policy.yaml", "    route: auto", "    rout: auto",
			[]string{"policy.yaml:16:5: rout is not a known setting here, allowed: id, action, when, route, reason",
				"policy.yaml:10:5: route is missing, allowed: auto, human_review, repair, reject"}},
		{"AnEmptyFile", "policy.yaml", "", "", []string{"policy.yaml:1:1: the file must hold one YAML document"}},
		{"ANumberForAText", "actions.yaml", "owner: sales-operations", "owner: 7",
			[]string{"actions.yaml:7:12: owner must be a text, found the value 7; put it in quotes"}},
		{"ATextForATruthValue", "actions.yaml", "reversible: true", "reversible: \"yes\"",
			[]string{`reversible must be true or false, found the text "yes"`}},
		{"AnAnchor", "actions.yaml", "owner: sales-operations", "owner: &o sales",
			[]string{"anchor or alias, which are not supported"}},
		{"AYAMLTag", "actions.yaml", "owner: sales-operations", "owner: !!str sales",
			[]string{"owner must be a text, found a YAML tag, which is not supported"}},
		{"AMergeKey", "actions.yaml", "owner: sales-operations", "<<: {owner: sales}",
			[]string{"actions.yaml:7:5: must be a plain name; merge keys", "owner is missing; it must be a text"}},
		{"TwoDocuments", "policy.yaml", "rules:\n", "rules: []\n---\nrules:\n", []string{"must hold one YAML document"}},
		{"AListForAMapping", "sources.yaml", "lease:\n", "lease: [1]\n    other:\n",
			[]string{"must be a mapping of names to values, found a list"}},
		{"AMappingForAList", "actions.yaml", "audience: [support-lead]", "audience: {support: lead}",
			[]string{"audience must be a list, found a mapping"}},
		{"ANumberInAListOfTexts", "actions.yaml", "audience: [support-lead]", "audience: [support-lead, 7, ~]",
			[]string{"audience[1] must be a text, found the value 7", "audience[2] must be a text, found nothing"}},
		{"ARepeatedItem", "actions.yaml", "audience: [support-lead]", "audience: [a, b, a]",
			[]string{`audience[2] repeats "a"`}},
		{"AnEmptyText", "actions.yaml", "owner: sales-operations", "owner: ' '", []string{"owner must not be empty"}},
		{"AnEmptyPointer", "sources.yaml", "proposal: /proposal", `proposal: ""`,
			[]string{"proposal must be a JSON pointer such as /customer/id; leave it out to mean the whole"}},
		{"AMissingDuration", "actions.yaml", "    decide_within: 4h # then the request expires\n", "",
			[]string{"decide_within is missing; it must be a duration such as 30s"}},
		{"AMissingVersion", "sources.yaml", "      - version: 1\n", "      - overlap_with: 0\n",
			[]string{"version is missing; versions count up from 1"}},
		{"ASourceWithoutRules", "sources.yaml", "    lease:\n", "    lease:\n    rules: ~\n  - id: more\n    mode: inline\n" +
			"    other:\n", []string{"rules is missing; it must list at least one version with key and hash"}},
		{"AHashOverNothing", "sources.yaml", "exclude: [/delivered_at]", "include: [/a]\n          exclude: ['']",
			[]string{"exclude[0] must be a text"}},
		{"AKeyWithoutScope", "tenant.yaml", "[publish, work, read]", "[]",
			[]string{"scopes must list at least one of publish, work, read"}},
		{"AMissingSchema", "actions.yaml", "    schema: payment.refund.json\n", "",
			[]string{"schema is missing; it must name a file in schemas"}},
		{"ASchemaThatIsNoObject", "schemas/payment.refund.json", "{", "[{}]\n//", []string{"not valid JSON"}},
		{"AHostThatIsNone", "connectors.yaml", "concurrency: 256",
			"allowed_hosts: ['127.0.0.1:7080', 'http://a/b']\n    concurrency: 256",
			[]string{`allowed_hosts has "http://a/b", which must be host or host:port`}},
		{"AConnectorWithoutOperations", "connectors.yaml", "  - id: sandbox-payments\n",
			"  - id: idle\n    base_url: http://localhost\n  - id: sandbox-payments\n",
			[]string{"operations is missing; it must list at least one operation"}},
		{"ALookupWithoutExternalID", "connectors.yaml", "          external_id: /id\n", "",
			[]string{"external_id is missing; it is the JSON pointer to the provider's id in a match"}},
		{"AReadWithoutVersion", "connectors.yaml", "          version: /version\n          # Reviewers", "          # Reviewers",
			[]string{"version is missing; it is the JSON pointer to the record's version"}},
		{"APathWithoutSlash", "connectors.yaml", "path: /payments/refunds\n", "path: payments/refunds\n",
			[]string{`path must begin with / (it is added to base_url), found "payments/refunds"`}},
		{"ABodyThatIsNoJSON", "connectors.yaml", "currency: ${proposed_change.currency}", "currency: 0x10",
			[]string{"body.currency cannot be written as JSON, found the value 0x10; put it in quotes"}},
		{"AMissingSetting", "actions.yaml", "    reversible: true\n", "",
			[]string{"reversible is missing, allowed: true, false"}},
		{"ARiskOutsideTheList", "actions.yaml", "risk: low", "risk: tiny",
			[]string{`actions.yaml:8:11: risk is "tiny", allowed: low, medium, high`}},
		{"ACategoryOutsideTheList", "actions.yaml", "category: payment", "category: payments",
			[]string{`category is "payments", allowed: customer_message, payment, discount`}},
		{"ANonPositiveDuration", "actions.yaml", "decide_within: 24h", "decide_within: -1h",
			[]string{`decide_within must be a positive duration such as 30s, 15m or 24h, found the text "-1h"`}},
		{"AThresholdThatIsNoPlainDecimal", "actions.yaml", "needs_lead: 100.00", "needs_lead: 1e2",
			[]string{"needs_lead must be a plain decimal such as 100.00"}},
		{"AnActionWithoutAudience", "actions.yaml", "    audience: [support-lead]\n", "",
			[]string{"audience must list at least one role that may decide"}},
		{"AnUnknownConnector", "actions.yaml", "connector: sandbox-crm", "connector: crm",
			[]string{`connector is "crm", which connectors.yaml does not declare, allowed: sandbox-crm, sandbox-payments, warehouse`}},
		{"AnUnknownOperation", "actions.yaml", "operation: create_refund", "operation: refund",
			[]string{`operation is "refund", which connector sandbox-payments does not have, allowed: create_refund`}},
		{"ARepeatedActionType", "actions.yaml", "type: payment.refund", "type: crm.contact.update",
			[]string{`type "crm.contact.update" is declared already at tenants/demo/actions.yaml:3:11`}},
		{"AMissingSchemaFile", "actions.yaml", "schema: payment.refund.json", "schema: refund.json",
			[]string{"actions.yaml:23:13: there is no file tenants/demo/schemas/refund.json"}},
		{"ASchemaOutsideTheFolder", "actions.yaml", "schema: payment.refund.json", "schema: ../tenant.yaml",
			[]string{"must be the name of a .json file in schemas"}},
		{"ARuleForAnUnregisteredAction", "policy.yaml", "action: payment.refund", "action: payment.refunds",
			[]string{`action is "payment.refunds", which actions.yaml does not register, allowed: * or crm.contact.update, ` +
				"payment.refund"}},
		{"AnUnknownRoute", "policy.yaml", "route: auto", "route: allow",
			[]string{`policy.yaml:16:12: route is "allow", allowed: auto, human_review, repair, reject`}},
		{"AKeyOfTwoForms", "sources.yaml", "key: {header: Idempotency-Key}",
			"key: {header: Idempotency-Key, cloud_event: true}",
			[]string{"sources.yaml:12:14: key must have exactly one of header, cloud_event, pointers, cel; it has 2"}},
		{"AKeyOfNoForm", "sources.yaml", "key: {header: Idempotency-Key}", "key: {}", []string{"it has 0"}},
		{"AMissingKey", "sources.yaml", "        key: {header: Idempotency-Key}\n", "",
			[]string{"sources.yaml:10:9: key is missing"}},
		{"AKeyExpressionThatYieldsNoText", "sources.yaml", "key: {header: Idempotency-Key}", "key: {cel: 'size(headers)'}",
			[]string{"cel yields int, but a key is a string"}},
		{"AKeyExpressionOverTheUnknown", "sources.yaml", "key: {header: Idempotency-Key}", "key: {cel: 'execution.id'}",
			[]string{"cel is not valid", "undeclared reference to 'execution'"}},
		{"VersionsThatDescend", "sources.yaml", "      - version: 1\n",
			"      - version: 2\n        key: {header: Idempotency-Key}\n      - version: 1\n",
			[]string{"version is 1 after 2; versions must ascend"}},
		{"AnOverlapWithAVersionThatIsNotThere", "sources.yaml", "      - version: 1\n",
			"      - version: 2\n        overlap_with: 1\n",
			[]string{"overlap_with is 1, which must be an earlier version of this source"}},
		{"ALeaseOverItsLifetime", "sources.yaml", "duration: 30s", "duration: 11m",
			[]string{"duration is 11m0s, which must not be longer than max_lifetime, 10m0s"}},
		{"AProposalPointerInWorkerMode", "sources.yaml", "mode: worker", "mode: worker\n    proposal: /proposal",
			[]string{"proposal is for mode inline"}},
		{"ABadPointer", "sources.yaml", "exclude: [/delivered_at]", "exclude: [delivered_at]",
			[]string{`exclude is "delivered_at", which is no JSON pointer`}},
		{"ABodyOverTheBus'sLimit", "sources.yaml", "mode: worker", "mode: worker\n    max_bytes: 2000000",
			[]string{"max_bytes must be a whole number from 1 to 1048576, found the value 2000000"}},
		{"ABadSourceID", "sources.yaml", "id: agent-drafts", "id: Agent.Drafts",
			[]string{`id is "Agent.Drafts", allowed: 1 to 64 of a-z, 0-9 and -`}},
		{"AKeyHashThatIsNone", "tenant.yaml", "sha256: 839f", "sha256: 839F",
			[]string{"allowed: 64 lower-case hexadecimal digits"}},
		{"AnUnknownScope", "tenant.yaml", "[publish, work, read]", "[publish, admin]",
			[]string{`scopes: "admin" is no scope, allowed: publish, work, read`}},
		{"AWorkflowWithoutVersion", "tenant.yaml", "crm-enrichment@3", "crm-enrichment",
			[]string{`workflow_versions: "crm-enrichment" must be a name and a version`}},
		{"AHostThatIsNotTheBaseURL's", "connectors.yaml", "concurrency: 256",
			"allowed_hosts: [crm.example.com]\n    concurrency: 256",
			[]string{`allowed_hosts lacks "127.0.0.1:7080", the host of base_url`}},
		{"ABaseURLThatIsNone", "connectors.yaml", "http://127.0.0.1:7080", "127.0.0.1:7080",
			[]string{"connectors.yaml:37:15: base_url is \"127.0.0.1:7080\", which must be an absolute http or https URL"}},
		{"ACredentialInTheURL", "connectors.yaml", "http://127.0.0.1:7080", "http://u:p@127.0.0.1:7080",
			[]string{"must have no user"}},
		{"AnEnvironmentVariableThatIsNotSet", "connectors.yaml", "${HOLDPOINT_SANDBOX_URL:-http://127.0.0.1:7080}",
			"${CRM_URL}",
			[]string{"base_url needs the environment variable CRM_URL, which is not set and has no default"}},
		{"TwoCredentials", "connectors.yaml", "concurrency: 256", "bearer_env: A\n    bearer_file: /b\n    concurrency: 256",
			[]string{"bearer_file and bearer_env are both set"}},
		{"ATemplateOverTheUnknown", "connectors.yaml", "amount: ${proposed_change.amount}", "amount: ${change.amount}",
			[]string{"body.amount: ${change.amount} names nothing of an intent, allowed: proposed_change, target"}},
		{"ATemplateWithoutEnd", "connectors.yaml", "path: /crm/contacts/${target.record_id}",
			"path: '/crm/contacts/${target.record_id'",
			[]string{"path has ${ without }"}},
		{"AMemberOfASingleValue", "connectors.yaml", "reference: ${operation_id}", "reference: ${operation_id.x}",
			[]string{"operation_id is a single value without members"}},
		{"AnUnknownTargetMember", "connectors.yaml", "path: /crm/contacts/${target.record_id}",
			"path: /crm/contacts/${target.id}",
			[]string{"target has the members system and record_id"}},
		{"AReplayWithoutWindow", "connectors.yaml", "key_window: 24h", "# key_window: 24h",
			[]string{"replays needs idempotency_header and key_window",
				"key_margin is 1h0m0s, which must be shorter than key_window"}},
		{"AnErrorCodeWithoutItsPlace", "connectors.yaml", "        error_code: /error/code\n", "",
			[]string{"error_code is missing"}},
		{"AMethodThatDoesNotWrite", "connectors.yaml", "method: POST", "method: GET",
			[]string{`method is "GET", allowed: POST, PUT, PATCH, DELETE`}},
		{"AStatusThatIsNone", "connectors.yaml", "[400, 404, 410, 422, 428]", "[400, 302]",
			[]string{"refused[1] must be an HTTP status from 400 to 499"}},
		{"ABackoffOverItsCap", "connectors.yaml", "timeout: 10s", "timeout: 10s\n    backoff: {base: 2m}",
			[]string{"base is 2m0s, which must not be longer than cap, 1m0s"}},
		{"ASchemaThatIsNoJSON", "schemas/payment.refund.json", `"amount": {`, `"amount" {`,
			[]string{"schemas/payment.refund.json:9:14: not valid JSON"}},
		{"ASchemaWithARepeatedName", "schemas/payment.refund.json", `"currency": {`, `"amount": {"type": "string"},
			"currency": {`,
			[]string{"schemas/payment.refund.json:10:", "not valid JSON"}},
		{"ASchemaThatDoesNotCompile", "schemas/payment.refund.json", `"type": "number"`, `"type": "amount"`,
			[]string{"schemas/payment.refund.json:1:1: compiling schema payment.refund.json"}},
		{"ASchemaThatReadsAFile", "schemas/payment.refund.json", `{"enum": ["EUR", "USD", "GBP"]}`,
			`{"$ref": "file:///etc/passwd"}`,
			[]string{"a schema cannot refer to another file"}},
		{"ASchemaThatPassesUnknownFields", "schemas/payment.refund.json", `"additionalProperties": false,`, ``,
			[]string{`must refuse unknown fields: set "additionalProperties": false at the top`}},
		{"ASchemaThatPassesUnknownFieldsInside", "schemas/crm.contact.update.json",
			"\"additionalProperties\": false,\n      \"minProperties\"", `"minProperties"`,
			[]string{`must refuse unknown fields: set "additionalProperties": false at /properties/fields`}},
		{"ASchemaWithoutType", "schemas/payment.refund.json", `"type": "object",`, ``,
			[]string{`must say "type": "object" at the top`}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if tc.old == "" {
				w.fs[demo+tc.file] = &fstest.MapFile{}
			} else {
				w.replace(tc.file, tc.old, tc.new)
			}
			_, err := w.load()
			for _, says := range tc.says {
				require.ErrorContains(t, err, says)
			}
			require.Contains(t, err.Error(), tc.file, "the file is named")
		})
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()

	t.Run("AllMistakesAreReportedInTheOrderOfTheFiles", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("policy.yaml", "route: auto", "route: allow")
		w.replace("actions.yaml", "risk: low", "risk: tiny")
		w.replace("actions.yaml", "risk: high", "risk: huge")
		_, err := w.load()
		require.ErrorContains(t, err, "the configuration cannot be used, 3 to mend:\n"+
			"tenants/demo/actions.yaml:8:11: risk is \"tiny\", allowed: low, medium, high\n"+
			"tenants/demo/actions.yaml:27:11: risk is \"huge\", allowed: low, medium, high\n"+
			"tenants/demo/policy.yaml:16:12: route is \"allow\"")
		var one *config.Error
		require.ErrorAs(t, err, &one)
		require.Equal(t, config.Position{File: "tenants/demo/actions.yaml", Line: 8, Column: 11}, one.Pos)
	})

	t.Run("AMissingFileIsReportedAndReferencesIntoItAreNot", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		delete(w.fs, demo+"connectors.yaml")
		_, err := w.load()
		require.ErrorContains(t, err, "the configuration cannot be used, 1 to mend:\n"+
			"tenants/demo/connectors.yaml: there is no file")
	})

	t.Run("AMisspeltFileIsReported", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.fs[demo+"rules.yaml"] = &fstest.MapFile{Data: []byte("rules: []")}
		_, err := w.load()
		require.ErrorContains(t, err, "tenants/demo/rules.yaml: is not read, allowed here: tenant.yaml, sources.yaml")
	})

	t.Run("ATenantFolderIsNamedByAValidID", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		for name, file := range newWorld(t).fs {
			w.fs[strings.Replace(name, "demo", "De.mo", 1)] = file
		}
		_, err := w.load()
		require.ErrorContains(t, err, "tenants/De.mo: the folder's name is the tenant's id, allowed: 1 to 32 of a-z")
	})

	t.Run("NoTenantIsAMistake", func(t *testing.T) {
		t.Parallel()
		_, err := config.Load(fstest.MapFS{"tenants/.keep": {}})
		require.ErrorContains(t, err, "tenants: holds no tenant")
		_, err = config.Load(fstest.MapFS{})
		require.ErrorContains(t, err, "tenants: cannot be listed")
	})

	t.Run("NothingButPlacesAndCredentialsReadsTheEnvironment", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.env["HOLDPOINT_SANDBOX_URL"] = "https://crm.example.com/api"
		w.replace("connectors.yaml", "concurrency: 256",
			"allowed_hosts: ['${CRM_HOST:-crm.example.com}']\n    bearer_env: ${TOKEN_VARIABLE:-CRM_TOKEN}\n    concurrency: 256")
		w.replace("actions.yaml", "owner: sales-operations", "owner: ${HOLDPOINT_SANDBOX_URL}")
		loaded, err := w.load()
		require.NoError(t, err)
		crm := loaded.Tenants[0].Connectors[0]
		require.Equal(t, "https://crm.example.com/api", crm.BaseURL)
		require.Equal(t, []string{"crm.example.com"}, crm.AllowedHosts)
		require.Equal(t, "CRM_TOKEN", crm.BearerEnv)
		require.Equal(t, "${HOLDPOINT_SANDBOX_URL}", loaded.Tenants[0].Actions[0].Owner)
	})

	t.Run("BodiesKeepNumbersAsWritten", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.replace("connectors.yaml", "currency: ${proposed_change.currency}",
			"fee: 1.10\n          flags: [true, null, {deep: 9007199254740993}]")
		loaded, err := w.load()
		require.NoError(t, err)
		body := loaded.Tenants[0].Connectors[1].Operations[0].Body.(map[string]any)
		require.EqualValues(t, "1.10", body["fee"])
		require.Len(t, body["flags"], 3)
		require.EqualValues(t, "9007199254740993", body["flags"].([]any)[2].(map[string]any)["deep"])
	})
}
