package approval

import (
	"html"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestEye is APR-13: what could deceive is seen.
func TestEye(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, shown   string
		hidden, mixed int
	}{
		"PlainTextStaysAsItIs":         {"12.50 EUR für Zoë, 東京\n2nd line", "12.50 EUR für Zoë, 東京\n2nd line", 0, 0},
		"MarkupIsText":                 {"<b>&\"", "<b>&\"", 0, 0},
		"ABidiOverride":                {"a\u202Eb", "a⟦U+202E⟧b", 1, 0},
		"AZeroWidthSpace":              {"a\u200Bb", "a⟦U+200B⟧b", 1, 0},
		"AZeroWidthJoinerInsideAWord":  {"pay\u200Dpal", "pay⟦U+200D⟧pal", 1, 0},
		"ATagCharacter":                {"\U000E0041", "⟦U+E0041⟧", 1, 0},
		"AVariationSelector":           {"\U000E0100\uFE0F", "⟦U+E0100⟧⟦U+FE0F⟧", 2, 0},
		"AControlCharacter":            {"a\x1b[31m\rb", "a⟦U+001B⟧[31m⟦U+000D⟧b", 2, 0},
		"ANoBreakSpace":                {"1\u00A0000", "1⟦U+00A0⟧000", 1, 0},
		"AFiller":                      {"a\u3164b\u2800", "a⟦U+3164⟧b⟦U+2800⟧", 2, 0},
		"ABrokenByte":                  {"a\xffb", "a⟦byte 0xFF⟧b", 1, 0},
		"ManyBlanks":                   {"a" + strings.Repeat(" ", 3000) + "tail", "a⟦3000 blanks⟧tail", 1, 0},
		"ManyLineBreaks":               {"a" + strings.Repeat("\n", 90) + "tail", "a⟦90 line breaks⟧tail", 1, 0},
		"ManyAccents":                  {"a" + strings.Repeat("\u0338", 9), "a⟦9 combining characters⟧", 1, 0},
		"FewOfThem":                    {"a  b\n\nc e\u0301", "a  b\n\nc e\u0301", 0, 0},
		"ACyrillicLetterInALatinWord":  {"p\u0430ypal.com", "pа⟦U+0430⟧ypal.com", 0, 1},
		"ACyrillicDomainBeforeALatin":  {"\u0430\u0440.com", "а⟦U+0430⟧р⟦U+0440⟧.com", 0, 1},
		"AGreekLetterInALatinWord":     {"Amaz\u03BFn", "Amazο⟦U+03BF⟧n", 0, 1},
		"AWordOfOneScriptIsNoLookLike": {"Привет world", "Привет world", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &eye{}
			require.Equal(t, c.shown, html.UnescapeString(tags.ReplaceAllString(string(e.Show(c.text)), "")))
			require.Equal(t, c.hidden, e.Hidden)
			require.Equal(t, c.mixed, e.Mixed)
			require.Equal(t, c.hidden+c.mixed == 0, e.Clear())
		})
	}
	t.Run("AMessageHasTheMarksOnOneLine", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "a⟦U+000A⟧<b>⟦U+202E⟧", plainly("a\n<b>\u202E"))
	})
	t.Run("ALongValueIsCutUntilItIsAskedFor", func(t *testing.T) {
		t.Parallel()
		e, long := &eye{}, strings.Repeat("ä", longestShown+1)
		require.Contains(t, string(e.Show(long)), "⟦cut: the first 4000 of 4001 characters are shown⟧")
		require.Equal(t, 1, e.Cut)
		whole := &eye{Full: true}
		require.Contains(t, string(whole.Show(long)), long)
		require.True(t, whole.Clear())
	})
}

// TestNothingUnseenIsEverShown holds for any text at all.
func TestNothingUnseenIsEverShown(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()),
			func(b []byte) string { return string(b) })).Draw(t, "text")
		shown := string((&eye{}).Show(raw))
		if !utf8.ValidString(shown) || strings.ContainsFunc(shown, unseen) {
			t.Fatalf("%q is shown as %q", raw, shown)
		}
		if left := tags.ReplaceAllString(shown, ""); strings.ContainsAny(left, `<>"'`) {
			t.Fatalf("%q is not escaped: %q", raw, left)
		}
	})
}
