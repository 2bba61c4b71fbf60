// Command gotest runs go test with its arguments and prints the output. At the end it prints a line for each
// skipped test, with the reason: go test itself shows these only among the output of all tests.
//
// If the environment has WEFT_MAY_SKIP, a skipped test fails unless a line of the variable is a part of the
// test's output.
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

	"golang.org/x/sys/unix"
)

func main() {
	test := exec.Command("go", append([]string{"test", "-json"}, os.Args[1:]...)...)
	test.Stderr = os.Stderr
	test.Env = append(os.Environ(), inMemory()...)
	events, err := test.StdoutPipe()
	if err == nil {
		err = test.Start()
	}
	if err == nil {
		var skipped []string
		skipped, err = report(os.Stdout, events)
		err = errors.Join(err, test.Wait())
		if may, strict := os.LookupEnv("WEFT_MAY_SKIP"); strict {
			err = errors.Join(err, refuse(skipped, may))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "go test:", err)
		os.Exit(1)
	}
}

// inMemory makes tests keep their files in memory, which takes less processor time than a disk, if it has
// room for them and may hold programs. go's own builds stay in their place.
func inMemory() []string {
	const memory, enough = "/dev/shm", 4 << 30
	var room unix.Statfs_t
	if err := unix.Statfs(memory, &room); err != nil || room.Flags&unix.ST_NOEXEC != 0 ||
		int64(room.Bavail)*room.Bsize < enough || os.Getenv("TMPDIR") != "" {
		return nil
	}
	return []string{"GOTMPDIR=" + os.TempDir(), "TMPDIR=" + memory}
}

// refuse returns an error with the lines about skipped tests in which no line of may occurs.
func refuse(skipped []string, may string) error {
	refused := slices.DeleteFunc(slices.Clone(skipped), func(test string) bool {
		return slices.ContainsFunc(strings.FieldsFunc(may, func(r rune) bool { return r == '\n' }),
			func(part string) bool { return strings.Contains(test, part) })
	})
	if len(refused) == 0 {
		return nil
	}
	return fmt.Errorf("no line of WEFT_MAY_SKIP is a part of\n%s", strings.Join(refused, "\n"))
}

// An event is a line of `go test -json` (go doc test2json). Test is empty in those of a package.
type event struct {
	Action, Package, Test, Output string
}

// report prints what happened in each package, and at last the skipped tests. It returns these.
func report(w io.Writer, events io.Reader) (skipped []string, err error) {
	output := map[[2]string]string{} // by package and test
	for decoder := json.NewDecoder(events); ; {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return skipped, err
		}
		key := [2]string{e.Package, e.Test}
		text := ""
		switch e.Action {
		case "build-output":
			text = e.Output
		case "output":
			output[key] += e.Output
		case "pass", "fail", "skip":
			text = output[key]
			delete(output, key)
			switch {
			case e.Test == "" && e.Action == "fail": // perhaps within tests, which then lack an end
				for _, other := range slices.SortedFunc(maps.Keys(output),
					func(a, b [2]string) int { return strings.Compare(a[1], b[1]) }) {
					if other[0] == e.Package {
						text = output[other] + text
						delete(output, other)
					}
				}
			case e.Test == "": // the package's last line: ok and its time, or that there are no tests
				text = text[1+strings.LastIndex(strings.TrimSuffix(text, "\n"), "\n"):]
			case e.Action == "skip":
				skipped = append(skipped, fmt.Sprintf("skipped: %s %s: %s", e.Package, e.Test, reason(text)))
				text = ""
			case e.Action == "pass":
				text = ""
			}
		}
		if _, err := io.WriteString(w, text); err != nil {
			return skipped, err
		}
	}
	for _, line := range skipped {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return skipped, err
		}
	}
	return skipped, nil
}

// reason returns the log of a skipped test, on one line, without the lines of go test itself.
func reason(output string) string {
	var lines []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			lines = append(lines, line)
		}
	}
	if lines == nil {
		return "it gives no reason"
	}
	return strings.Join(lines, " ")
}
