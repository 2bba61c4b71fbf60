package main

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"weft/internal/npy"
	"weft/train/metric"
	"weft/train/rundir"
)

// What a session compares: results, plans, pages and arrays.

// sameLosses compares the losses of two runs by what --json printed, as in "same-losses 1e-5 one.json
// three.json": all may differ by so much of themselves. With 0 they must have the same bits, and so must the
// bytes that were sent.
func sameLosses(ts *testscript.TestScript, negated bool, args []string) {
	tolerance, err := strconv.ParseFloat(args[0], 64)
	ts.Check(err)
	var runs [2]rundir.Summary
	for i, name := range args[1:] {
		ts.Check(json.Unmarshal([]byte(ts.ReadFile(name)), &runs[i]))
	}
	a, b := runs[0].Losses, runs[1].Losses
	same := len(a) == len(b) && len(a) > 0
	for i := 0; same && i < len(a); i++ {
		same = math.Abs(float64(a[i]-b[i])) <= tolerance*math.Abs(float64(a[i]))
	}
	if tolerance == 0 {
		same = same && runs[0].Communication == runs[1].Communication &&
			slices.Equal(runs[0].SentBytes, runs[1].SentBytes)
	}
	if same == negated {
		ts.Fatalf("same within %v: %v; losses %v and %v", tolerance, same, a, b)
	}
}

// plannedAsRun holds what plan --json printed to what train --json did on one of the meshes, as in "planned
// plan.json run.json": bytes sent and memory.
func plannedAsRun(ts *testscript.TestScript, negated bool, args []string) {
	var (
		plan struct {
			Meshes []struct {
				Parallel        string
				PeakTensorBytes int64 `json:"peak_tensor_bytes"`
				SentBytes       int64 `json:"sent_bytes"`
			}
		}
		run rundir.Summary
	)
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &plan))
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &run))
	sent := int64(0)
	for _, bytes := range run.SentBytes {
		sent += bytes
	}
	same := false
	for _, m := range plan.Meshes {
		same = same || m.Parallel == run.Parallel && m.SentBytes == sent &&
			m.PeakTensorBytes == slices.Max(run.PeakTensorBytes)
	}
	if same == negated {
		ts.Fatalf("planned as run: %v; %+v, sent %d and took %v", same, plan.Meshes, sent,
			run.PeakTensorBytes)
	}
}

// measuredAsRun holds what train --json printed against evaluate --json, as in "measured run.json
// evaluated.json": validation and test vertices have the same metric, validation and test edges all the same.
func measuredAsRun(ts *testscript.TestScript, negated bool, args []string) {
	var (
		run      rundir.Summary
		measures map[string]map[string]any
	)
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &run))
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &measures))
	val, test := measures["val"][run.Metric], measures["test"][run.Metric]
	if l := run.Links; l != nil {
		for name := range l.Test {
			for part, want := range map[string]metric.Number{"val": l.Val[name], "test": l.Test[name]} {
				x, there := measures[part][name].(float64)
				if there == math.IsNaN(float64(want)) || there && x != float64(want) {
					ts.Fatalf("%s of %s: evaluated %v, the run has %v", name, part,
						measures[part][name], want)
				}
			}
		}
		return
	}
	if same := val == float64(run.Val) && test == float64(run.Test); same == negated {
		ts.Fatalf("the same measures: %v; %v and %v, evaluated %v and %v", same, run.Val, run.Test, val, test)
	}
}

// shows holds what weft printed last to numbers of a JSON file, as in "shows run.json '^test +{test%} %$'".
// A place in braces stands for the number there, or with a % behind it for a share in percent. Places are
// keys and numbers of entries, as in {links.test.mrr%} or {tests.0}. With a third argument it reads that
// file.
func shows(ts *testscript.TestScript, negated bool, args []string) {
	var known any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &known))
	pattern := regexp.MustCompile(`\{[a-z@0-9_.-]+%?\}`).ReplaceAllStringFunc(args[1],
		func(place string) string {
			place, share := strings.CutSuffix(strings.Trim(place, "{}"), "%")
			at := known
			for key := range strings.SplitSeq(place, ".") {
				switch node := at.(type) {
				case map[string]any:
					at = node[key]
				case []any:
					k, err := strconv.Atoi(key)
					ts.Check(err)
					at = node[k]
				}
			}
			x, is := at.(float64)
			switch {
			case !is:
				ts.Fatalf("%s has no number at %s", args[0], place)
			case share:
				return regexp.QuoteMeta(fmt.Sprintf("%.2f", 100*x))
			}
			return regexp.QuoteMeta(strconv.FormatFloat(x, 'f', -1, 64))
		})
	text := "stdout"
	if len(args) > 2 {
		text = args[2]
	}
	if found := regexp.MustCompile("(?m)" + pattern).MatchString(ts.ReadFile(text)); found == negated {
		ts.Fatalf("%s has %q: %v\n%s", text, pattern, found, ts.ReadFile(text))
	}
}

// sameRows holds the rows of an array to those of another that a list names, as in "same-rows all.npy
// some.npy ids.npy": they have the same bits.
func sameRows(ts *testscript.TestScript, negated bool, args []string) {
	full, named := readArray(ts, args[0]), readArray(ts, args[1])
	all, some := floats(ts, full), floats(ts, named)
	ids, err := readArray(ts, args[2]).Int64s()
	same, columns := err == nil && named.Shape[0] == len(ids) && len(ids) > 0, full.Shape[1]
	for i := 0; same && i < len(ids); i++ {
		v := int(ids[i])
		same = slices.Equal(some[i*columns:(i+1)*columns], all[v*columns:(v+1)*columns])
	}
	if same == negated {
		ts.Fatalf("the rows %v are the same: %v", ids, same)
	}
}

// nearArrays compares two arrays, as in "near-arrays 1e-6 one.npy other.npy": each number but for so much of
// the largest.
func nearArrays(ts *testscript.TestScript, negated bool, args []string) {
	tolerance, err := strconv.ParseFloat(args[0], 64)
	ts.Check(err)
	a, b, largest := floats(ts, readArray(ts, args[1])), floats(ts, readArray(ts, args[2])), 0.
	for _, x := range a {
		largest = max(largest, math.Abs(float64(x)))
	}
	near := len(a) == len(b) && len(a) > 0
	for i := 0; near && i < len(a); i++ {
		near = math.Abs(float64(a[i]-b[i])) <= tolerance*largest
	}
	if near == negated {
		ts.Fatalf("near: %v; %v and %v", near, a, b)
	}
}

// nearNumbers compares the numbers in two texts, as in "near-numbers 1e-6 one.json other.json": each but for
// so much. What is between them is the same.
func nearNumbers(ts *testscript.TestScript, negated bool, args []string) {
	tolerance, err := strconv.ParseFloat(args[0], 64)
	ts.Check(err)
	number := regexp.MustCompile(`\d+(\.\d+)?(e-?\d+)?`)
	a, b := ts.ReadFile(args[1]), ts.ReadFile(args[2])
	near := number.ReplaceAllString(a, "") == number.ReplaceAllString(b, "")
	numbers, others := number.FindAllString(a, -1), number.FindAllString(b, -1)
	for i := 0; near && i < len(numbers); i++ {
		x, err := strconv.ParseFloat(numbers[i], 64)
		ts.Check(err)
		y, err := strconv.ParseFloat(others[i], 64)
		ts.Check(err)
		near = math.Abs(x-y) <= tolerance
	}
	if near == negated {
		ts.Fatalf("near: %v; %s and %s", near, a, b)
	}
}

// readArray reads a NumPy file.
func readArray(ts *testscript.TestScript, name string) *npy.Array {
	text := ts.ReadFile(name)
	a, err := npy.Read(strings.NewReader(text), int64(len(text)))
	ts.Check(err)
	return a
}

// floats are the numbers of an array.
func floats(ts *testscript.TestScript, a *npy.Array) []float32 {
	x, err := a.Float32s()
	ts.Check(err)
	return x
}
