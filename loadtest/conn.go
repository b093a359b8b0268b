package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// staleAfter is how long a connection may have been idle before it is made anew: the server may be about to close it,
// and a request lost that way would count as an error of the system.
const staleAfter = 5 * time.Second

// answerTimeout is how long an answer may take through either door.
const answerTimeout = 30 * time.Second

// conn is one keep-alive HTTP/1.1 connection that carries ready-made request bytes. It is not net/http's client for
// two reasons: that one sends a request with an Idempotency-Key a second time, unasked, where a connection breaks, so
// that the driver would not know what it has delivered; and it costs several times the CPU, which the system under
// test needs.
type conn struct {
	addr   string
	dialer net.Dialer
	net    net.Conn
	reader *bufio.Reader
	used   time.Time
	body   []byte
}

// hostOf returns host:port of a plain HTTP base URL.
func hostOf(base string) (string, error) {
	u, err := url.Parse(base)
	if err != nil {
		return "", fmt.Errorf("intake URL: %w", err)
	}
	if u.Scheme != "http" || u.Host == "" {
		return "", fmt.Errorf("intake URL %s: the driver speaks plain http://host:port only", base)
	}
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), "80"), nil
	}
	return u.Host, nil
}

// do sends the request once and returns the status and body. The body is valid until the next call. After an error it
// is not known whether the request was processed; the next call uses a new connection.
func (c *conn) do(ctx context.Context, request []byte) (int, []byte, error) {
	if err := c.connect(ctx); err != nil {
		return 0, nil, err
	}
	status, keep, err := c.exchange(request)
	if err != nil || !keep {
		c.close()
	}
	c.used = time.Now()
	return status, c.body, err
}

func (c *conn) connect(ctx context.Context) error {
	if c.net != nil && time.Since(c.used) < staleAfter {
		return nil
	}
	c.close()
	dialled, err := c.dialer.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	c.net, c.reader = dialled, bufio.NewReaderSize(dialled, 8<<10)
	return nil
}

func (c *conn) close() {
	if c.net != nil {
		c.net.Close() // there is nothing left to lose on it
		c.net = nil
	}
}

func (c *conn) exchange(request []byte) (status int, keep bool, err error) {
	if err := c.net.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return 0, false, err
	}
	if _, err := c.net.Write(request); err != nil {
		return 0, false, fmt.Errorf("send: %w", err)
	}
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return 0, false, fmt.Errorf("read the answer: %w", err)
	}
	if err := c.read(resp); err != nil {
		return resp.StatusCode, false, fmt.Errorf("read the answer: %w", err)
	}
	return resp.StatusCode, !resp.Close, nil
}

// read takes the whole body, into memory that is used again where its length is announced.
func (c *conn) read(resp *http.Response) error {
	n := resp.ContentLength
	if n < 0 {
		var err error
		c.body, err = io.ReadAll(resp.Body)
		return err
	}
	if n > 1<<20 {
		return errors.New("it is over 1 MiB")
	}
	if int64(cap(c.body)) < n {
		c.body = make([]byte, n)
	}
	c.body = c.body[:n]
	_, err := io.ReadFull(resp.Body, c.body)
	return err
}
