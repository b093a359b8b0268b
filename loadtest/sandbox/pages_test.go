package sandbox_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// get returns a page or list as text.
func (w world) get(path string) string {
	w.t.Helper()
	resp, err := w.http.Get(w.URL() + path)
	require.NoError(w.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	require.Equal(w.t, http.StatusOK, resp.StatusCode, "%s", text)
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		policy := resp.Header.Get("Content-Security-Policy")
		require.Contains(w.t, policy, "default-src 'none'")
		require.NotContains(w.t, policy, "script-src")
		require.Equal(w.t, "no-referrer", resp.Header.Get("Referrer-Policy"))
	}
	return string(text)
}

func TestPages(t *testing.T) {
	t.Parallel()

	t.Run("EmptyPagesSaySo", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		require.Contains(t, w.get("/mail"), "No mail has arrived")
		require.Contains(t, w.get("/hooks"), "No webhook has arrived")
		for _, path := range []string{"/mail/0", "/mail/1", "/mail/x", "/hooks/-1", "/hooks/shop"} {
			require.Equal(t, http.StatusNotFound, w.must(http.MethodGet, path, "").status, path)
		}
	})

	t.Run("NewestMailIsFirstAndCanBeRead", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		require.NoError(t, w.post(letter, "rita@example.com"))
		require.NoError(t, w.post("Subject: Second\r\n\r\nSee https://example.com/a?b=1&c=2, then act.", "udo@example.com"))
		list := w.get("/mail")
		require.Less(t, strings.Index(list, "Second"), strings.Index(list, "Hello"))
		require.Contains(t, list, `<a href="/mail/2">Second</a>`)
		require.Contains(t, list, "rita@example.com")
		page := w.get("/mail/2")
		require.Contains(t, page, `<a href="https://example.com/a?b=1&amp;c=2" rel="noreferrer noopener">`+
			`https://example.com/a?b=1&amp;c=2</a>, then act.`)
		require.Contains(t, w.get("/mail/1"), "&lt;1@example.com&gt;")
	})

	t.Run("HostileMailIsEscaped", func(t *testing.T) {
		t.Parallel()
		const script = `<script>alert(1)</script>`
		for name, raw := range map[string]string{
			"plain":          "Subject: " + script + "\r\nMessage-ID: " + script + "\r\n\r\n" + script,
			"encodedSubject": "Subject: =?utf-8?b?PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==?=\r\n\r\n" + script,
			"html":           "Subject: x\r\nContent-Type: text/html\r\n\r\n" + script,
			"noHeader":       script + "\r\n" + script,
			"linkTricks":     "\r\n" + script + ` https://e.example/"onmouseover="x' javascript:alert(1) <a href=x>`,
			"brokenMultipart": "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n" +
				"Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\n" + script,
		} {
			w := newWorld(t)
			require.NoError(t, w.post(raw, `"<script>"@example.com`), name)
			for _, page := range []string{w.get("/mail"), w.get("/mail/1")} {
				require.NotContains(t, page, "<script", name)
				require.NotContains(t, page, `href="javascript`, name)
				require.NotContains(t, page, `"onmouseover`, name)
				require.NotContains(t, page, "<a href=x>", name)
			}
			require.Contains(t, w.get("/mail/1"), "&lt;script&gt;alert(1)&lt;/script&gt;", name)
		}
	})

	t.Run("HostileWebhookIsEscaped", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		_, err := w.hook("shop", `{"a":"</pre><script>"}`, "Webhook-Id", "<script>", "Content-Type", "<script>")
		require.NoError(t, err)
		_, err = w.hook("books", "no json: \xff<script>")
		require.NoError(t, err)
		require.NotContains(t, w.get("/hooks"), "<script")
		require.Contains(t, w.get("/hooks"), `<a href="/hooks/1">&lt;script&gt;</a>`)
		page := w.get("/hooks/1")
		require.NotContains(t, page, "<script")
		require.Contains(t, page, "{\n  &#34;a&#34;: &#34;&lt;/pre&gt;&lt;script&gt;&#34;\n}")
		require.Contains(t, w.get("/hooks/2"), "no json: \uFFFD&lt;script&gt;")
	})
}
