package sandbox

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMessagesAreDecodedAsFarAsTheyCanBe(t *testing.T) {
	t.Parallel()
	const parts = "Content-Type: multipart/alternative; boundary=b\r\n\r\npreamble\r\n"
	for name, c := range map[string]struct{ raw, subject, text string }{
		"Plain":                    {"Subject: Hi\r\n\r\none\r\ntwo\r\n", "Hi", "one\ntwo\n"},
		"Empty":                    {"", "", ""},
		"QuotedPrintable":          {"Content-Transfer-Encoding: Quoted-Printable\r\n\r\nGr=C3=BC=\r\n=C3=9Fe", "", "Grüße"},
		"Base64":                   {"Content-Transfer-Encoding: base64\r\n\r\nR3LD\r\nvMOfZQ==\r\n", "", "Grüße"},
		"BrokenBase64":             {"Content-Transfer-Encoding: base64\r\n\r\n!!", "", "!!"},
		"BrokenQuotedPrintable":    {"Content-Transfer-Encoding: quoted-printable\r\n\r\na=ZZ", "", "a=ZZ"},
		"Latin1":                   {"Content-Type: text/plain; charset=ISO-8859-1\r\n\r\nGr\xfc\xdfe", "", "Grüße"},
		"EncodedLatin1Subject":     {"Subject: =?iso-8859-1?q?Gr=FC=DFe?=\r\n\r\nx", "Grüße", "x"},
		"UnknownCharsetInSubject":  {"Subject: =?x-klingon?q?a?=\r\n\r\nx", "=?x-klingon?q?a?=", "x"},
		"BrokenEncodedWord":        {"Subject: =?utf-8?b?%%%?=\r\n\r\nx", "=?utf-8?b?%%%?=", "x"},
		"BytesThatAreNoUTF8":       {"Subject: a\xff\r\n\r\nb\xff", "a\uFFFD", "b\uFFFD"},
		"FoldedSubject":            {"Subject: one\r\n two\r\n\r\nx", "one two", "x"},
		"ControlAndBidiCharacters": {"Subject: a\u202eb\r\n\r\nc\x1b[1m\u2066d", "ab", "c[1md"},
		"HeaderThatIsNone":         {"no colon here\r\n\r\nx", "", "no colon here\n\nx"},
		"NonsenseContentType":      {"Content-Type: ;;;\r\n\r\nx", "", "x"},
		"PlainPartBeforeHTML": {parts + "--b\r\n\r\nplain\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>\r\n--b--",
			"", "plain"},
		"PlainPartAfterHTML": {parts + "--b\r\nContent-Type: text/html\r\n\r\n<p>\r\n--b\r\n\r\nplain\r\n--b--",
			"", "plain"},
		"HTMLAlone": {parts + "--b\r\nContent-Type: text/html\r\n\r\n<p>\r\n--b--", "", "<p>"},
		"PlainPartWithinAPart": {parts + "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\r\nin\r\n--c--" +
			"\r\n--b--", "", "in"},
		"MultipartCutOff":     {parts + "--b\r\n\r\npla", "", "pla"},
		"MultipartOfNothing":  {parts + "no parts", "", "preamble\nno parts"},
		"MultipartNoBoundary": {"Content-Type: multipart/mixed\r\n\r\nx", "", "x"},
		"ImageIsNotShownAsIs": {parts + "--b\r\nContent-Type: image/png\r\n\r\n\x89PNG\r\n--b\r\n\r\nt\r\n--b--", "", "t"},
		"NestedAsFarAsIsRead": {nested(mimeDepth), "", "deep"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.subject, subjectOf([]byte(c.raw)))
			require.Equal(t, c.text, textOf([]byte(c.raw)))
		})
	}
}

func TestMessageBeyondTheBoundsIsShownAsItsSource(t *testing.T) {
	t.Parallel()
	image := "--b\r\nContent-Type: image/png\r\n\r\n\r\n"
	for name, raw := range map[string]string{
		"depth": nested(mimeDepth + 1),
		"parts": "Content-Type: multipart/mixed; boundary=b\r\n\r\n" + strings.Repeat(image, mimeParts) + "--b\r\n\r\nlate",
	} {
		require.True(t, strings.HasPrefix(textOf([]byte(raw)), "--b"), name)
	}
}

// nested is a multipart in a multipart, so many times.
func nested(depth int) string {
	if depth == 0 {
		return "\r\ndeep"
	}
	boundary := "b" + strconv.Itoa(depth)
	return "Content-Type: multipart/mixed; boundary=" + boundary + "\r\n\r\n--" + boundary + "\r\n" + nested(depth-1)
}

func TestOnlyWebAddressesBecomeLinks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]stretch{
		"":                   nil,
		"no link":            {{Text: "no link"}},
		"javascript:alert()": {{Text: "javascript:alert()"}},
		"ftp://a.example":    {{Text: "ftp://a.example"}},
		"http://, https://.": {{Text: "http://, https://."}},
		"HTTPS://a.example/": {{Text: "HTTPS://a.example/", URL: "HTTPS://a.example/"}},
		"(http://a.example/x_).": {
			{Text: "("}, {Text: "http://a.example/x_", URL: "http://a.example/x_"}, {Text: ")."},
		},
		"a http://b http://c%zz http://d": {
			{Text: "a "}, {Text: "http://b", URL: "http://b"}, {Text: " http://c%zz "}, {Text: "http://d", URL: "http://d"},
		},
	} {
		require.Equal(t, want, links(text), "%q", text)
	}
}
