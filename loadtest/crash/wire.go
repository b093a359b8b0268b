package crash

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// Kinds of messages of Postgres's protocol, version 3.0, that tell what a session is doing.
const (
	wireParse = 'P'
	wireBind  = 'B'
	wireQuery = 'Q'
	wireReady = 'Z'
)

// wireIdle is the status in a "ready for query" that ends a transaction, or a statement that was its own.
const wireIdle = 'I'

// maxWireMessage bounds one message; ours are far smaller.
const maxWireMessage = 64 << 20

// readStartup reads a session's first message, which has no kind.
func readStartup(r io.Reader) ([]byte, error) { return readSized(r, nil) }

// readWire reads one message and returns it as it came, with its kind in front.
func readWire(r *bufio.Reader) ([]byte, error) {
	kind, err := r.ReadByte()
	if err != nil {
		return nil, err
	}
	return readSized(r, []byte{kind})
}

func readSized(r io.Reader, head []byte) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > maxWireMessage {
		return nil, fmt.Errorf("a Postgres message of %d bytes", n)
	}
	head = append(head, size[:]...)
	raw := append(head, make([]byte, n-4)...)
	_, err := io.ReadFull(r, raw[len(head):])
	return raw, err
}

// statements follows what one session executes between two moments of rest. It is not safe for concurrent use.
type statements struct {
	prepared map[string]string // SQL by the name that the client gave it
	current  []string          // SQL executed since the session was last idle
}

// client takes a message of the client into account.
func (s *statements) client(raw []byte) {
	body := raw[5:]
	switch raw[0] {
	case wireParse:
		name, rest := cutZero(body)
		sql, _ := cutZero(rest)
		s.prepared[name] = sql
	case wireBind:
		_, rest := cutZero(body) // the portal
		name, _ := cutZero(rest)
		s.current = append(s.current, s.prepared[name])
	case wireQuery:
		sql, _ := cutZero(body)
		s.current = append(s.current, sql)
	}
}

// executed reports whether SQL with the fragment was executed since the session was last idle.
func (s *statements) executed(fragment string) bool {
	for _, sql := range s.current {
		if strings.Contains(sql, fragment) {
			return true
		}
	}
	return false
}

// rest forgets what was executed.
func (s *statements) rest() { s.current = s.current[:0] }

// idles reports whether a message of the server says that everything before it is committed or rolled back.
func idles(raw []byte) bool { return raw[0] == wireReady && len(raw) == 6 && raw[5] == wireIdle }

// cutZero splits a text that ends with a zero byte from what follows.
func cutZero(b []byte) (string, []byte) {
	text, rest, _ := bytes.Cut(b, []byte{0})
	return string(text), rest
}
