package assert

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"

	"weft/internal/refusal"
)

// told collects what checks report.
type told struct{ all []string }

func (*told) Helper()             {}
func (r *told) Error(args ...any) { r.all = append(r.all, fmt.Sprint(args...)) }

// TestChecks: a check reports what is wrong, once, with what it is about, and nothing else.
func TestChecks(t *testing.T) {
	fault, refused := errors.New("a fault"), refusal.Errorf("lr 3: too high; take 1")
	type hidden struct{ n []int }
	for want, check := range map[string]func(r *told){
		"worker 3: a fault":           func(r *told) { NoError(r, fault, "worker %d", 3) },
		"no error":                    func(r *told) { Error(r, nil) },
		"list: 2, want 1":             func(r *told) { Equal(r, 1, 2, "list") },
		`"b", want "a"`:               func(r *told) { Equal(r, "a", "b") },
		"NaN, want NaN":               func(r *told) { Equal(r, math.NaN(), math.NaN()) },
		"hidden":                      func(r *told) { Equal(r, hidden{[]int{1}}, hidden{[]int{2}}) },
		"[]int":                       func(r *told) { Equal(r, nil, []int{}) },
		"\t\"d\",\n":                  func(r *told) { Equal(r, "a\nb\nc\n", "a\nb\nd\n") },
		"2, want 1 within 0.5":        func(r *told) { Near(r, 1, 2, .5) },
		"NaN, want 1 within 0.5":      func(r *told) { Near(r, 1, math.NaN(), .5) },
		"string":                      func(r *told) { EqualBy(r, "a", "b") },
		"2 of [1 2], want 3":          func(r *told) { Len(r, []int{1, 2}, 3) },
		"1 of [1], want 0":            func(r *told) { Empty(r, []int{1}) },
		`want a text with "b"`:        func(r *told) { Contains(r, "a", "b") },
		"want file does not exist":    func(r *told) { ErrorIs(r, fault, fs.ErrNotExist) },
		`want an error with "ault x"`: func(r *told) { ErrorContains(r, fault, "ault x") },
		"<nil>, want an error":        func(r *told) { ErrorContains(r, nil, "") },
		"a fault, want a":             func(r *told) { EqualError(r, fault, "a") },
		"<nil>, want a":               func(r *told) { EqualError(r, nil, "a") },
		`a fault, want a refusal`:     func(r *told) { Refused(r, fault, "fault") },
		`want a refusal with "low"`:   func(r *told) { Refused(r, refused, "low") },
		"line\n, want a refusal":      func(r *told) { Refused(r, refusal.Errorf("line\n"), "line") },
		`that begins with "high"`:     func(r *told) { RefusedFor(r, refused, "high", "too high") },
		"want the refusal lr 3":       func(r *told) { EqualRefusal(r, refused, "lr 3") },
		"want the refusal a fault":    func(r *told) { EqualRefusal(r, fault, "a fault") },
		"": func(r *told) {
			NoError(r, nil)
			Error(r, fault)
			Equal(r, hidden{[]int{1}}, hidden{[]int{1}})
			Equal(r, 1.5, 1.5)
			Near(r, 1, 1.5, .5)
			EqualBy(r, "a", "a")
			Len(r, "ab", 2)
			Empty(r, map[int]int(nil))
			Contains(r, "abc", "b")
			ErrorIs(r, fmt.Errorf("%w", fault), fault)
			ErrorContains(r, fault, "ault")
			EqualError(r, fault, "a fault")
			Refused(r, refused, "too high")
			RefusedFor(r, refused, "lr 3: ", "take 1")
			EqualRefusal(r, refused, "lr 3: too high; take 1")
		},
	} {
		var r told
		check(&r)
		if all := strings.Join(r.all, "; "); (want == "") != (all == "") || !strings.Contains(all, want) ||
			len(r.all) > 1 {
			t.Errorf("%q, want %q", all, want)
		}
	}
}
