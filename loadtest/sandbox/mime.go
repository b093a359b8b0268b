package sandbox

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"strings"
	"unicode"
)

// How far a message is taken apart. Whatever lies beyond is not shown.
const (
	mimeDepth = 5
	mimeParts = 100 // of one multipart
)

// parseMail splits a message. One whose header cannot be understood is all body.
func parseMail(raw []byte) *mail.Message {
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return &mail.Message{Header: mail.Header{}, Body: bytes.NewReader(raw)}
	}
	return m
}

func messageIDOf(raw []byte) string { return oneLine(parseMail(raw).Header.Get("Message-Id")) }

// subjectOf returns the subject with its encoded words decoded, or as it stands where their charset is unknown.
func subjectOf(raw []byte) string {
	subject := parseMail(raw).Header.Get("Subject")
	if decoded, err := new(mime.WordDecoder).DecodeHeader(subject); err == nil {
		subject = decoded
	}
	return oneLine(subject)
}

// textOf returns the first text/plain part, else the source of the first other text, else the body as it arrived.
func textOf(raw []byte) string {
	m := parseMail(raw)
	if text, _ := findText(textproto.MIMEHeader(m.Header), m.Body, 0); text != "" {
		return text
	}
	body, _ := io.ReadAll(parseMail(raw).Body) // reads memory
	return printable(string(body))
}

// findText returns the text of one part, "" where it has none, and whether it is text/plain.
func findText(header textproto.MIMEHeader, body io.Reader, depth int) (text string, plain bool) {
	mediaType, params, _ := mime.ParseMediaType(header.Get("Content-Type"))
	switch {
	case strings.HasPrefix(mediaType, "multipart/") && params["boundary"] != "":
		if depth == mimeDepth {
			return "", false
		}
		return firstText(multipart.NewReader(body, params["boundary"]), depth+1)
	case mediaType == "": // absent or nonsense is plain text (RFC 2045, 5.2)
		mediaType = "text/plain"
	case !strings.HasPrefix(mediaType, "text/"):
		return "", false
	}
	content := decodeTransfer(header.Get("Content-Transfer-Encoding"), body)
	return printable(decodeCharset(params["charset"], content)), mediaType == "text/plain"
}

// firstText stops without complaint where the multipart is broken.
func firstText(parts *multipart.Reader, depth int) (text string, plain bool) {
	for range mimeParts {
		part, err := parts.NextRawPart()
		if err != nil {
			break
		}
		found, isPlain := findText(part.Header, part, depth)
		if isPlain {
			return found, true
		}
		if text == "" {
			text = found
		}
	}
	return text, false
}

// decodeTransfer undoes the transfer encoding, or returns the content as it arrived where it is not in that encoding.
func decodeTransfer(encoding string, body io.Reader) []byte {
	content, err := io.ReadAll(body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) { // a last part without its boundary is shown as far as it goes
		return content
	}
	decoder := io.Reader(bytes.NewReader(content))
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "quoted-printable":
		decoder = quotedprintable.NewReader(decoder)
	case "base64":
		decoder = base64.NewDecoder(base64.StdEncoding, decoder)
	}
	decoded, err := io.ReadAll(decoder)
	if err != nil {
		return content
	}
	return decoded
}

// decodeCharset knows what the standard library knows: UTF-8, ASCII and ISO 8859-1.
func decodeCharset(charset string, content []byte) string {
	if !strings.EqualFold(charset, "iso-8859-1") {
		return string(content)
	}
	runes := make([]rune, len(content))
	for i, b := range content {
		runes[i] = rune(b)
	}
	return string(runes)
}

// printable makes any bytes fit to be shown: valid UTF-8, plain line ends, and nothing that moves the cursor or turns
// the direction of writing, by which a message could make a link look like another.
func printable(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || (!unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r)) {
			return r
		}
		return -1
	}, text)
}

// oneLine is printable for header fields.
func oneLine(text string) string { return strings.Join(strings.Fields(printable(text)), " ") }
