// Command gotest runs go test with its arguments, prints what go test prints, and at the end a line for each
// test that was skipped, with its reason: go test itself shows these only among the output of all tests.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	test := exec.Command("go", append([]string{"test", "-json"}, os.Args[1:]...)...)
	test.Stderr = os.Stderr
	events, err := test.StdoutPipe()
	if err == nil {
		err = test.Start()
	}
	if err == nil {
		err = errors.Join(report(os.Stdout, events), test.Wait())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "go test:", err)
		os.Exit(1)
	}
}

// An event is a line of `go test -json` (go doc test2json). Test is empty in those of a package.
type event struct {
	Action, Package, Test, Output string
}

// report prints what happened in each package, and at last the tests that were skipped.
func report(w io.Writer, events io.Reader) error {
	var (
		output  = map[[2]string]string{} // by package and test
		skipped []string
	)
	for decoder := json.NewDecoder(events); ; {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		of := [2]string{e.Package, e.Test}
		text := ""
		switch e.Action {
		case "build-output":
			text = e.Output
		case "output":
			output[of] += e.Output
		case "pass", "fail", "skip":
			text = output[of]
			delete(output, of)
			switch {
			case e.Test == "" && e.Action == "fail": // perhaps in the middle of tests, which have no end
				for _, of := range slices.SortedFunc(maps.Keys(output),
					func(a, b [2]string) int { return strings.Compare(a[1], b[1]) }) {
					if of[0] == e.Package {
						text = output[of] + text
						delete(output, of)
					}
				}
			case e.Test == "": // its last line: ok, and how long it took; or that there are no tests
				text = text[1+strings.LastIndex(strings.TrimSuffix(text, "\n"), "\n"):]
			case e.Action == "skip":
				skipped = append(skipped, fmt.Sprintf("skipped: %s %s: %s", e.Package, e.Test, reason(text)))
				text = ""
			case e.Action == "pass":
				text = ""
			}
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	for _, line := range skipped {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// reason is what a skipped test logged, on one line, without the lines of go test itself.
func reason(output string) string {
	var said []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			said = append(said, line)
		}
	}
	if said == nil {
		return "it gives no reason"
	}
	return strings.Join(said, " ")
}
