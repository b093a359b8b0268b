package connectorcheck_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// firstAnswers repeats the first answer to a key, whatever comes under it.
func firstAnswers(to http.Handler) http.HandlerFunc {
	var mu sync.Mutex
	first := map[string]*httptest.ResponseRecorder{}
	return func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		if key == "" {
			to.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if first[key] == nil {
			first[key] = httptest.NewRecorder()
			to.ServeHTTP(first[key], r)
		}
		w.WriteHeader(first[key].Code)
		w.Write(first[key].Body.Bytes())
	}
}

// anyReference answers every search with the last write, as if it were what was asked for.
func anyReference(to http.Handler) http.HandlerFunc {
	var mu sync.Mutex
	var reference string
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			var sent struct{ Reference string }
			_ = json.Unmarshal(body, &sent)
			reference, r.Body = sent.Reference, io.NopCloser(bytes.NewReader(body))
			to.ServeHTTP(w, r)
			return
		}
		asked := r.URL.Query().Get("reference")
		r.URL.RawQuery = "reference=" + reference
		r.Header.Set("Accept-Encoding", "identity")
		answer := httptest.NewRecorder()
		to.ServeHTTP(answer, r)
		io.WriteString(w, strings.ReplaceAll(answer.Body.String(), reference, asked))
	}
}

// anyVersion passes no expected version on.
func anyVersion(to http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("If-Match")
		to.ServeHTTP(w, r)
	}
}

// refusedAndWritten says of an expected version that it is not the target's, and writes besides.
func refusedAndWritten(to http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, inner := httptest.NewRecorder(), r.Clone(r.Context())
		body, _ := io.ReadAll(r.Body)
		r.Body, inner.Body = io.NopCloser(bytes.NewReader(body)), io.NopCloser(bytes.NewReader(body))
		to.ServeHTTP(answer, r)
		if answer.Code == http.StatusPreconditionFailed {
			anyVersion(to)(httptest.NewRecorder(), inner)
		}
		w.WriteHeader(answer.Code)
		w.Write(answer.Body.Bytes())
	}
}

// oldContact shows every contact as it was when it was first read.
func oldContact(to http.Handler) http.HandlerFunc {
	var mu sync.Mutex
	first := map[string][]byte{}
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, "/crm/contacts/") {
			to.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if first[r.URL.Path] == nil {
			answer := httptest.NewRecorder()
			to.ServeHTTP(answer, r)
			first[r.URL.Path] = answer.Body.Bytes()
		}
		w.Write(first[r.URL.Path])
	}
}
