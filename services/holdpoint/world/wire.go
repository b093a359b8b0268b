package world

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// frame is one operation of the NATS client protocol: a line, and for messages the headers and payload that follow it.
type frame struct {
	words []string // the line
	body  []byte   // with its closing CRLF; nil where the operation has none
}

// readFrame reads the next operation of either side.
func readFrame(r *bufio.Reader) (frame, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return frame{}, err
	}
	f := frame{words: strings.Fields(line)}
	if !f.isMessage() {
		f.words = []string{strings.TrimRight(line, "\r\n")} // CONNECT and INFO carry JSON that must stay as it is
		return f, nil
	}
	size, err := strconv.Atoi(f.words[len(f.words)-1])
	if err != nil {
		return frame{}, fmt.Errorf("size of %q: %w", line, err)
	}
	f.body = make([]byte, size+2)
	_, err = io.ReadFull(r, f.body)
	return f, err
}

func (f frame) isMessage() bool {
	return len(f.words) > 2 && slices.Contains([]string{"PUB", "HPUB", "MSG", "HMSG"}, f.words[0])
}

func (f frame) bytes() []byte {
	return append([]byte(strings.Join(f.words, " ")+"\r\n"), f.body...)
}

// exposed reports whether luck may touch the frame: events, acknowledgements of deliveries, and receipts for publishes.
// Requests to the broker's management interface pass; over TCP nothing but a cut can lose them.
func (f frame) exposed() bool {
	if !f.isMessage() {
		return false
	}
	subject := f.words[1]
	return strings.HasPrefix(subject, "holdpoint.") || strings.HasPrefix(subject, "$JS.ACK.") ||
		strings.HasPrefix(subject, "_INBOX.") && bytes.HasPrefix(f.payload(), []byte(`{"stream":`))
}

func (f frame) payload() []byte {
	if strings.HasPrefix(f.words[0], "H") {
		size, err := strconv.Atoi(f.words[len(f.words)-2])
		if err == nil && size <= len(f.body) {
			return f.body[size:]
		}
	}
	return f.body
}

// again is the frame's duplicate. A repeated publish gets a message id of its own, so that the broker stores it twice,
// and asks for no receipt; anything else is repeated as it is.
func (f frame) again() frame {
	const id = "Nats-Msg-Id:"
	at := bytes.Index(f.body, []byte(id))
	if f.words[0] != "HPUB" || at < 0 {
		return f
	}
	end := at + bytes.IndexByte(f.body[at:], '\r')
	body := slices.Concat(f.body[:end], []byte("~again"), f.body[end:])
	n := len(f.words)
	return frame{words: []string{"HPUB", f.words[1], longer(f.words[n-2]), longer(f.words[n-1])}, body: body}
}

// longer adds the length of the new part of the id to a size.
func longer(size string) string {
	n, _ := strconv.Atoi(size) // readFrame has read it
	return strconv.Itoa(n + len("~again"))
}

// brokerWire carries NATS with the world's luck.
func (d *dice) brokerWire(client, server net.Conn) {
	ended := make(chan struct{})
	var once sync.Once
	direction := func(from, to net.Conn) func() {
		return func() {
			defer once.Do(func() { close(ended) })
			d.carryFrames(from, &frameWriter{to: to}, ended)
		}
	}
	bothWays(client, server, direction(client, server), direction(server, client))
}

func (d *dice) carryFrames(from net.Conn, to *frameWriter, ended <-chan struct{}) {
	reader := bufio.NewReaderSize(from, 64<<10)
	left := d.budget(d.CutBroker)
	for {
		f, err := readFrame(reader)
		if err != nil {
			return
		}
		if f.exposed() {
			if left--; left == 0 && d.cut(BrokerCut) {
				return
			}
			err = d.suffer(f, to, ended)
		} else {
			err = to.write(f)
		}
		if err != nil {
			return
		}
	}
}

// suffer does to a frame what the dice say. A delayed frame holds up those behind it; a reordered one lets them pass.
func (d *dice) suffer(f frame, to *frameWriter, ended <-chan struct{}) error {
	switch d.throw() {
	case Dropped:
		return nil
	case Duplicated:
		if err := to.write(f); err != nil {
			return err
		}
		return to.write(f.again())
	case Reordered:
		time.AfterFunc(d.wait(longestReorder), func() { _ = to.write(f) }) // the connection may have ended by then
		return nil
	case Delayed:
		select {
		case <-time.After(d.wait(longestDelay)):
		case <-ended:
		}
	}
	return to.write(f)
}

// frameWriter writes whole frames, from several goroutines.
type frameWriter struct {
	mu sync.Mutex
	to net.Conn
}

func (w *frameWriter) write(f frame) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.to.Write(f.bytes())
	return err
}

// databaseWire carries Postgres, and now and then loses an answer together with its connection.
func (d *dice) databaseWire(client, server net.Conn) {
	bothWays(client, server, func() { _, _ = io.Copy(server, client) }, func() {
		left := d.budget(d.CutDatabase)
		answer := make([]byte, 64<<10)
		for {
			n, err := server.Read(answer)
			if left--; err != nil || left == 0 && d.cut(DatabaseCut) {
				return
			}
			if _, err := client.Write(answer[:n]); err != nil {
				return
			}
		}
	})
}
