package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/pkg/fault"
)

// mainPackage is the program under test.
const mainPackage = "github.com/holdpoint/holdpoint/services/holdpoint"

// Build makes the program with its crash boundaries armed, and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "holdpoint")
	args := []string{"build", "-buildvcs=false", "-tags", "holdpoint_crash", "-o", binary, mainPackage}
	if output, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s with its crash boundaries (run this inside the repository): %w\n%s",
			mainPackage, err, output)
	}
	return binary, nil
}

// listSites asks the program for its boundaries, and sorts them by name, so that a seed draws the same sample again.
func listSites(ctx context.Context, binary string) ([]fault.Site, error) {
	output, err := exec.CommandContext(ctx, binary, "crash-sites").Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its crash boundaries: %w", binary, err)
	}
	var listed struct {
		Enabled bool         `json:"enabled"`
		Sites   []fault.Site `json:"sites"`
	}
	if err := json.NewDecoder(bytes.NewReader(output)).Decode(&listed); err != nil {
		return nil, fmt.Errorf("read the crash boundaries of %s: %w", binary, err)
	}
	if !listed.Enabled || len(listed.Sites) == 0 {
		return nil, errors.New("the program was built without the tag holdpoint_crash and cannot be killed at a boundary")
	}
	slices.SortFunc(listed.Sites, func(a, b fault.Site) int { return strings.Compare(a.String(), b.String()) })
	return listed.Sites, nil
}
