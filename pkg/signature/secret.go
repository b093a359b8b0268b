package signature

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Secret is where a signing secret is kept; exactly one member is set.
type Secret struct {
	Env   string // environment variable that holds it
	File  string // file that holds it; space around it is no part of it
	Value string // the secret itself, for one that is no secret
}

// String names the place, so that a secret that is printed by mistake tells nothing.
func (s Secret) String() string {
	switch {
	case s.Env != "":
		return "environment variable " + s.Env
	case s.File != "":
		return "file " + s.File
	}
	return "literal value"
}

// GoString is String: %#v tells nothing either.
func (s Secret) GoString() string { return s.String() }

func (s Secret) read() (string, error) {
	switch {
	case s.Env != "":
		return strings.TrimSpace(os.Getenv(s.Env)), nil
	case s.File != "":
		text, err := os.ReadFile(s.File)
		return strings.TrimSpace(string(text)), err
	}
	return s.Value, nil
}

// Lengths of a key in bytes. Those of Standard Webhooks are its specification's; a text that is shorter than
// shortestText could be found by trying, from one delivery that was seen.
const (
	shortestKey  = 24
	longestKey   = 64
	shortestText = 16
)

// key is the HMAC key that a secret's text stands for under a scheme. Its error does not quote the text.
func key(scheme, text string) ([]byte, error) {
	if text == "" {
		return nil, errors.New("is empty")
	}
	if scheme != StandardWebhooks {
		if len(text) < shortestText {
			return nil, fmt.Errorf("is too short; it must have at least %d bytes", shortestText)
		}
		return []byte(text), nil
	}
	encoded, marked := strings.CutPrefix(text, "whsec_")
	k, err := base64.StdEncoding.DecodeString(encoded)
	if !marked || err != nil || len(k) < shortestKey || len(k) > longestKey {
		return nil, fmt.Errorf("must be whsec_ and the base64 of %d to %d random bytes, as Standard Webhooks has it",
			shortestKey, longestKey)
	}
	return k, nil
}

// CheckText says what is wrong with a secret's text under a scheme, without quoting it.
func CheckText(scheme, text string) error {
	_, err := key(scheme, text)
	return err
}
