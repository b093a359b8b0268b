package main

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

// inBuildCache are the two places that `go run` starts programs from: the scratch directory of a build, and its cache
// of what it has built before.
var inBuildCache = regexp.MustCompile(`/go-build\d+/b\d+/exe/[^/]+$|/[0-9a-f]{64}-d/[^/]+$`)

// again is how whoever started this program calls it again from the same directory, for a shell.
func again(executable, typed, workDir string) string {
	if !inBuildCache.MatchString(executable) {
		return quoted(typed)
	}
	const here = "services/holdpoint"
	if info, err := os.Stat(filepath.Join(workDir, here)); err == nil && info.IsDir() {
		return "go run ./" + here
	}
	if built, ok := debug.ReadBuildInfo(); ok {
		return "go run " + built.Path
	}
	return quoted(executable)
}

// callAgain is again for this process.
func callAgain() string {
	executable, err := os.Executable()
	if err != nil {
		return quoted(os.Args[0])
	}
	workDir, err := os.Getwd()
	if err != nil {
		workDir = "."
	}
	return again(executable, os.Args[0], workDir)
}

// quoted is a word as a POSIX shell reads it.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("%+,-./:=@_", r)
	}
	if word != "" && strings.TrimFunc(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
