package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// journal is an append-only file of checksummed lines, `crc32-in-hex SPACE json NEWLINE`. One goroutine writes what has
// gathered and calls fsync once for all of it.
type journal struct {
	file  *os.File
	delay time.Duration
	wake  chan struct{} // holds one token while lines are pending
	ended chan struct{} // closed when the writing goroutine has returned

	mu      sync.Mutex
	pending []byte
	next    *commit // completed by the fsync that covers pending
	closing bool
	err     error // first failure; the journal takes nothing afterwards
}

// commit is one fsync that many lines share. err may be read once done is closed.
type commit struct {
	done chan struct{}
	err  error
}

func newCommit() *commit { return &commit{done: make(chan struct{})} }

// wait blocks until the lines are on disk. A nil commit is one that a former process made.
func (c *commit) wait() error {
	if c == nil {
		return nil
	}
	<-c.done
	return c.err
}

var errJournalClosed = errors.New("the ledger is closed")

// openJournal reads the file at path, hands each intact line to replay and starts the writer. A torn tail, which is
// what a crash in mid-write leaves, is cut off: no such line was ever acknowledged. Damage before intact lines is an
// error.
func openJournal(path string, delay time.Duration, replay func(line []byte) error) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	if err := prepare(file, replay); err != nil {
		return nil, errors.Join(fmt.Errorf("ledger %s: %w", path, err), file.Close())
	}
	j := &journal{
		file: file, delay: delay, next: newCommit(),
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	go j.run()
	return j, nil
}

// prepare locks the file, replays it and leaves the write position behind the last intact line.
func prepare(file *os.File, replay func(line []byte) error) error {
	if err := lockFile(file); err != nil {
		return fmt.Errorf("another sandbox uses it; stop that one or choose another data directory: %w", err)
	}
	intact, err := readLines(file, replay)
	if err != nil {
		return err
	}
	if err := file.Truncate(intact); err != nil {
		return fmt.Errorf("cut off a torn tail: %w", err)
	}
	if _, err := file.Seek(intact, 0); err != nil {
		return fmt.Errorf("find the end: %w", err)
	}
	return errors.Join(file.Sync(), syncDir(filepath.Dir(file.Name())))
}

// syncDir makes the directory entry of a new file durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// append adds one line and returns the commit that will make it durable. The order of calls is the order of lines.
func (j *journal) append(payload []byte) (*commit, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.err != nil:
		return nil, j.err
	case j.closing:
		return nil, errJournalClosed
	}
	j.pending = appendLine(j.pending, payload)
	select {
	case j.wake <- struct{}{}:
	default:
	}
	return j.next, nil
}

// run writes and syncs until close.
func (j *journal) run() {
	defer close(j.ended)
	var spare []byte
	for range j.wake {
		time.Sleep(j.delay)
		j.mu.Lock()
		lines, batch := j.pending, j.next
		j.pending, j.next = spare[:0], newCommit()
		j.mu.Unlock()
		batch.err = j.flush(lines)
		close(batch.done)
		spare = lines
	}
}

func (j *journal) flush(lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	_, err := j.file.Write(lines)
	if err == nil {
		err = j.file.Sync()
	}
	if err == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err = fmt.Errorf("the ledger cannot be written, restart the sandbox once the disk is well: %w", err)
	return j.err
}

// close flushes what is pending and closes the file.
func (j *journal) close() error {
	j.mu.Lock()
	if j.closing {
		j.mu.Unlock()
		return nil
	}
	j.closing = true
	close(j.wake) // append checks closing under the same lock, so nothing is sent afterwards
	j.mu.Unlock()
	<-j.ended
	last := j.next
	last.err = j.flush(j.pending)
	close(last.done)
	return errors.Join(last.err, j.file.Close())
}

func appendLine(dst, payload []byte) []byte {
	sum := strconv.FormatUint(uint64(crc32.ChecksumIEEE(payload)), 16)
	dst = append(dst, "00000000"[len(sum):]...)
	dst = append(dst, sum...)
	dst = append(dst, ' ')
	dst = append(dst, payload...)
	return append(dst, '\n')
}

// parseLine returns the payload of a whole line without its newline, or false where it is torn or damaged.
func parseLine(line []byte) ([]byte, bool) {
	sum, payload, found := bytes.Cut(line, []byte{' '})
	if !found || len(sum) != 8 {
		return nil, false
	}
	want, err := strconv.ParseUint(string(sum), 16, 32)
	return payload, err == nil && uint32(want) == crc32.ChecksumIEEE(payload)
}
