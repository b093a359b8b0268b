package sandbox

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// readLines hands every intact line to replay and returns how many bytes of the file are intact.
func readLines(r io.Reader, replay func(line []byte) error) (int64, error) {
	reader := bufio.NewReaderSize(r, 1<<20)
	var intact int64
	torn := false
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("read at byte %d: %w", intact, err)
		}
		payload, ok := parseLine(bytes.TrimSuffix(line, []byte{'\n'}))
		ok = ok && err == nil // a last line without its newline is torn, whatever its checksum
		switch {
		case ok && torn:
			return 0, fmt.Errorf("damaged at byte %d with intact lines after it: restore the file from a copy", intact)
		case ok:
			if err := replay(payload); err != nil {
				return 0, fmt.Errorf("line at byte %d: %w", intact, err)
			}
			intact += int64(len(line))
		default:
			torn = true
		}
		if err != nil {
			return intact, nil
		}
	}
}
