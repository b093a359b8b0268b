package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
)

func TestScan(t *testing.T) {
	t.Parallel()

	t.Run("MemberIsFoundOnlyWhereItReallyIs", func(t *testing.T) {
		t.Parallel()
		for document, want := range map[string]string{
			`{"a":"1","k":"v"}`:         "v",
			`{"a":"\"k\":\"x","k":"v"}`: "v",
			`{"a":{"k":"v"}}`:           "v",
		} {
			got, ok := member([]byte(document), `"k":"`)
			require.True(t, ok, document)
			require.Equal(t, want, got, document)
		}
		for _, document := range []string{``, `{"k": "v"}`, `{"k":"v`, `{"k":"a\nb"}`, `{"k":1}`, `{"a":"\"k\":\"x\""}`} {
			_, ok := member([]byte(document), `"k":"`)
			require.False(t, ok, document)
		}
	})

	t.Run("AnswersAndProblemsAreReadHoweverTheyAreWritten", func(t *testing.T) {
		t.Parallel()
		quick, err := json.Marshal(contracts.Answer{Result: contracts.ResultAccepted, RunID: "r-1", IdempotencyKey: "k"})
		require.NoError(t, err)
		spaced, err := json.MarshalIndent(contracts.Answer{Result: contracts.ResultAccepted, RunID: "r-1"}, "", "  ")
		require.NoError(t, err)
		for _, body := range [][]byte{quick, spaced} {
			a, err := readAnswer(body)
			require.NoError(t, err)
			require.Equal(t, answer{Result: "accepted", RunID: "r-1"}, a)
		}
		problem, err := json.Marshal(contracts.NewProblem(contracts.CodeSchemaInvalid, "no target"))
		require.NoError(t, err)
		a, err := readAnswer(problem)
		require.NoError(t, err)
		require.Equal(t, answer{Code: "schema_invalid", Detail: "no target"}, a)
		_, err = readAnswer([]byte(`<html>`))
		require.Error(t, err)
	})
}
