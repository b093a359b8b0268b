package deploy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/deploy"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/services/holdpoint/roster"
)

func TestN8NWorkflows(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("n8n/*.json")
	require.NoError(t, err)
	api := openAPI(t)
	secret := regexp.MustCompile(`(?i)bearer |whsec_|\bhp_\w+|\bsk-\w+|password|"authorization"`)
	for _, file := range files {
		if file = filepath.Base(file); file == n8nCredentials {
			continue
		}
		w := readN8N(t, file)
		t.Run(file+"/EveryStepIsReachedAndLeadsSomewhere", func(t *testing.T) {
			t.Parallel()
			reached := map[string]bool{}
			for from, outputs := range w.Connections {
				w.node(t, from)
				for _, link := range slices.Concat(outputs.Main...) {
					w.node(t, link.Node)
					require.Zero(t, link.Index)
					reached[link.Node] = true
				}
			}
			names := map[string]bool{}
			for _, n := range w.Nodes {
				require.False(t, names[n.Name], "two nodes are called %s", n.Name)
				names[n.Name] = true
				starts := n.is("webhook") || n.is("scheduleTrigger") || n.is("stickyNote")
				require.Equal(t, !starts, reached[n.Name], n.Name)
			}
			require.False(t, w.Active, "who imports it starts it")
		})
		t.Run(file+"/EveryCallIsInTheContractAndIsRepeatedWhenItFails", func(t *testing.T) {
			t.Parallel()
			require.NotEmpty(t, w.kind("httpRequest"))
			for _, n := range w.kind("httpRequest") {
				known := declared(api, operation(t, api, n))
				for _, p := range slices.Concat(n.Parameters.Headers.Parameters, n.Parameters.Query.Parameters) {
					require.Contains(t, known, p.Name, n.Name)
				}
				require.True(t, n.RetryOnFail && n.MaxTries > 1, n.Name)
			}
		})
		t.Run(file+"/TheOnlySecretIsTheCredentialThatItNames", func(t *testing.T) {
			t.Parallel()
			require.Empty(t, secret.FindAllString(w.text, -1))
			for _, n := range w.kind("httpRequest") {
				require.Equal(t, "httpHeaderAuth", n.Parameters.Auth, n.Name)
				require.Equal(t, demoCredential(t).ID, n.Credentials["httpHeaderAuth"]["id"], n.Name)
			}
		})
	}

	t.Run("TheCredentialIsTheDemoKeyAndNothingElse", func(t *testing.T) {
		t.Parallel()
		c := demoCredential(t)
		require.Equal(t, "httpHeaderAuth", c.Type)
		require.Equal(t, map[string]string{"name": "Authorization", "value": "Bearer " + roster.DemoKey}, c.Data)
	})
}

// varies finds what is another one in every execution.
var varies = regexp.MustCompile(`(?i)\$(execution|now|today|runIndex|itemIndex|input|env|vars)|random|uuid|Date`)

// ticket is the event of the README's example.
func ticket(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile("n8n/README.md")
	require.NoError(t, err)
	sent := regexp.MustCompile(`(?s)/webhook/refund-requests.*?-d '(.*?)'\n`).FindSubmatch(text)
	require.NotNil(t, sent, "the README sends no ticket")
	var body map[string]any
	now := strings.ReplaceAll(string(sent[1]), `'$(date -u +%FT%TZ)'`, "2026-11-30T03:23:32Z")
	require.NoError(t, json.Unmarshal([]byte(now), &body))
	return map[string]any{"body": body}
}

func demoTenant(t *testing.T) *config.Tenant {
	t.Helper()
	all, err := config.Load(deploy.Example())
	require.NoError(t, err)
	for _, tenant := range all.Tenants {
		if tenant.ID == "demo" {
			return tenant
		}
	}
	require.Fail(t, "there is no tenant demo")
	return nil
}

// requireProposal holds a proposal to its schema, to that of its action, and to the versions that are in use.
func requireProposal(t *testing.T, proposal map[string]any) {
	t.Helper()
	requireFits(t, contracts.ProposalSchema(), proposal)
	tenant := demoTenant(t)
	action := tenant.Action(proposal["action_type"].(string))
	require.NotNil(t, action)
	requireFits(t, action.Schema, proposal["proposed_change"])
	require.Contains(t, tenant.WorkflowVersions, proposal["workflow_version"])
	for _, rule := range action.Evidence {
		require.Equal(t, rule.Source, proposal["evidence"].([]any)[0].(map[string]any)["source"])
	}
}

func TestN8NProposeAndWait(t *testing.T) {
	t.Parallel()
	w := readN8N(t, proposing)
	propose, wait := w.node(t, "Propose to Holdpoint"), w.node(t, "Wait for the end")

	t.Run("WhatIsProposedFitsItsSourceAndItsAction", func(t *testing.T) {
		t.Parallel()
		event := w.node(t, "The proposal").filled(t, ticket(t))["event"].(map[string]any)
		source := propose.Parameters.URL[strings.Index(propose.Parameters.URL, "/sources/")+len("/sources/"):]
		sources := demoTenant(t).Sources
		at := slices.IndexFunc(sources, func(s *config.Source) bool { return s.ID+"/events" == source })
		require.GreaterOrEqual(t, at, 0)
		requireFits(t, sources[at].Schema, event)
		requireProposal(t, event["proposal"].(map[string]any))
		require.Equal(t, "={{ JSON.stringify($json.event) }}", propose.Parameters.Body)
	})

	t.Run("KeyAndBodyComeFromTheEventAlone", func(t *testing.T) { // K1: a second execution sends the same
		t.Parallel()
		require.Equal(t, "={{ $json.key }}", propose.header("Idempotency-Key"))
		item := ticket(t)
		filled := w.node(t, "The proposal").filled(t, item)
		require.Equal(t, "refund:"+item["body"].(map[string]any)["ticket_id"].(string), filled["key"])
		for _, a := range w.node(t, "The proposal").Parameters.Assignments.Assignments {
			require.NotRegexp(t, varies, a.text(), a.Name)
		}
		require.Equal(t, []string{"The proposal"}, w.next("A ticket asks for a refund", 0))
		require.Equal(t, []string{propose.Name}, w.next("The proposal", 0))
	})

	t.Run("TheExecutionIsWokenAtTheAddressThatHoldpointGets", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "={{ $execution.resumeUrl }}", propose.header("Holdpoint-Callback"))
		require.Equal(t, []string{wait.Name}, w.next(propose.Name, 0))
		require.Equal(t, "webhook", wait.Parameters.Resume)
		require.Equal(t, "POST", wait.Parameters.HTTPMethod)
		require.True(t, wait.Parameters.Limited, "a call that never comes must not be waited for for ever")
	})

	t.Run("ItBranchesOnWhatIsAskedWithTheKeyAndKnowsEveryOutcome", func(t *testing.T) {
		t.Parallel()
		ask := w.node(t, "Ask what became of it")
		require.Equal(t, []string{ask.Name}, w.next(wait.Name, 0), "whoever wakes it is not believed")
		require.Contains(t, ask.Parameters.Query.Parameters, named{"key", "={{ $('The proposal').first().json.key }}"})
		end := w.node(t, w.next(ask.Name, 0)[0])
		var branches []any
		for i, rule := range end.Parameters.Rules.Values {
			require.Equal(t, "={{ $json.outcome }}", rule.Conditions.Conditions[0].Left)
			require.Len(t, w.next(end.Name, i), 1)
			if rule.Conditions.Conditions[0].Operator.Operation == "notExists" {
				require.Equal(t, []string{wait.Name}, w.next(end.Name, i))
				continue
			}
			require.NotEqual(t, []string{wait.Name}, w.next(end.Name, i))
			branches = append(branches, rule.Conditions.Conditions[0].Right)
		}
		require.Len(t, w.next(end.Name, len(branches)+1), 1, "outcomes may be added")
		require.ElementsMatch(t, outcomes(t), branches)
	})
}

// outcomes are those that an answer can have.
func outcomes(t *testing.T) []any {
	t.Helper()
	var answer struct {
		Properties struct{ Outcome struct{ Enum []any } }
	}
	require.NoError(t, json.Unmarshal(contract(t, "answer.v1"), &answer))
	require.NotEmpty(t, answer.Properties.Outcome.Enum)
	return answer.Properties.Outcome.Enum
}

func TestN8NWorker(t *testing.T) {
	t.Parallel()
	w := readN8N(t, working)
	code := w.node(t, "Draft the proposal (your model goes here)").Parameters.Code
	lease := map[string]any{"owner": "1673deea-be80-464d-83fa-43dd4ba3d760", "version": 1}
	body := func(t *testing.T, name string) map[string]any {
		t.Helper()
		text := strings.TrimSuffix(strings.TrimPrefix(w.node(t, name).Parameters.Body, "={{ JSON.stringify("), ") }}")
		return javaScript(t, text)
	}
	literal := func(t *testing.T, name string) map[string]any {
		t.Helper()
		found := regexp.MustCompile(`(?ms)const ` + name + ` = (\{.*?\});$`).FindStringSubmatch(code)
		require.NotNil(t, found, "the code has no %s", name)
		return javaScript(t, found[1])
	}
	requireFailure := func(t *testing.T, failure any) {
		t.Helper()
		whole := maps.Clone(lease)
		maps.Copy(whole, failure.(map[string]any))
		requireFits(t, contract(t, "failure.v1"), whole)
	}

	t.Run("ItTakesWorkForAnOwnerOfItsOwn", func(t *testing.T) {
		t.Parallel()
		request := body(t, "Take work")
		require.Equal(t, "$('A new owner').first().json.owner", request["owner"])
		request["owner"] = lease["owner"]
		requireFits(t, contract(t, "work_request.v1"), request)
		source := w.node(t, "Settings").filled(t, nil)["source"]
		require.True(t, slices.ContainsFunc(demoTenant(t).Sources, func(s *config.Source) bool {
			return s.ID == source && s.Mode == config.ModeWorker
		}), source)
	})

	t.Run("WhatTheStubDraftsIsAProposal", func(t *testing.T) {
		t.Parallel()
		proposal := literal(t, "proposal")
		require.Equal(t, "new Date().toISOString()", proposal["evidence"].([]any)[0].(map[string]any)["observed_at"])
		proposal["evidence"].([]any)[0].(map[string]any)["observed_at"] = "2026-11-30T03:23:32Z"
		requireProposal(t, proposal)
		submission := body(t, "Submit the proposal")
		require.Equal(t, "$json.proposal", submission["proposal"])
		require.Equal(t, "$('One run').item.json.run.lease.owner", submission["owner"])
		require.Equal(t, "$('One run').item.json.run.lease.version", submission["version"])
		maps.Copy(submission, lease)
		submission["proposal"] = proposal
		requireFits(t, contract(t, "submission.v1"), submission)
	})

	t.Run("EveryFailureSaysItsClassAndWhetherToTryAgain", func(t *testing.T) {
		t.Parallel()
		requireFailure(t, literal(t, "failure"))
		failed := w.node(t, "The draft failed").filled(t, nil)["failure"]
		requireFailure(t, failed)
		require.Equal(t, true, failed.(map[string]any)["retryable"])
		problem := map[string]any{"body": map[string]any{"detail": "1 problem"}}
		invalid := w.node(t, "The proposal is not valid").filled(t, problem)["failure"]
		requireFailure(t, invalid)
		require.Equal(t, false, invalid.(map[string]any)["retryable"])
		require.Contains(t, body(t, "Give it back"), "...$json.failure")
		// When its runner dies, n8n hands on what the node got as if it came from it.
		require.Equal(t, []string{"Submit the proposal"}, w.next("What came of it?", 0))
		require.Equal(t, []string{"Give it back"}, w.next("What came of it?", 1))
		require.Equal(t, []string{"The draft failed"}, w.next("What came of it?", 2))
	})

	t.Run("WhoLostTheRunStops", func(t *testing.T) { // K8
		t.Parallel()
		for _, call := range []string{"Submit the proposal", "Give it back"} {
			n, response := w.node(t, call), w.node(t, call).Parameters.Options.Response.Response
			require.True(t, response.FullResponse && response.NeverError, "%s hides the status", call)
			require.Equal(t, "json", response.ResponseFormat, "n8n reads a problem as text unless it is told")
			require.Len(t, w.next(call, 0), 1)
			after := w.node(t, w.next(call, 0)[0])
			declared := operation(t, openAPI(t), n)["responses"].(map[string]any)
			leads := map[string][]string{}
			for i, rule := range after.Parameters.Rules.Values {
				status := fmt.Sprint(rule.Conditions.Conditions[0].Right)
				require.Contains(t, declared, status)
				leads[status] = w.next(after.Name, i)
			}
			require.Equal(t, []string{"Stop: another worker has it"}, leads["409"], call)
			require.Equal(t, []string{"Stop: it comes again when the lease has ended"}, w.next(after.Name, len(leads)), call)
		}
		for _, stop := range w.kind("noOp") {
			require.NotContains(t, w.Connections, stop.Name)
		}
	})
}
