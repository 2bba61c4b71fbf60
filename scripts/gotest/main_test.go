package main

import (
	"slices"
	"strings"
	"testing"

	"weft/internal/assert"
)

// report leaves out what passes, and ends with what was skipped and why. That fails, unless it is named.
func TestReport(t *testing.T) {
	const events = `{"ImportPath":"weft/c [weft/c.test]","Action":"build-output","Output":"c/c.go:2:23: cannot use x\n"}
{"Action":"build-fail"}
{"Action":"start","Package":"weft/a"}
{"Action":"output","Package":"weft/a","Test":"TestPass","Output":"=== RUN   TestPass\n"}
{"Action":"output","Package":"weft/a","Test":"TestPass","Output":"    a_test.go:3: unseen\n"}
{"Action":"pass","Package":"weft/a","Test":"TestPass"}
{"Action":"output","Package":"weft/b","Test":"TestFail","Output":"=== RUN   TestFail\n"}
{"Action":"output","Package":"weft/a","Test":"TestPage","Output":"=== RUN   TestPage\n"}
{"Action":"output","Package":"weft/a","Test":"TestPage","Output":"    a_test.go:4: tried twice\n"}
{"Action":"output","Package":"weft/a","Test":"TestPage","Output":"    a_test.go:5: there is no chromium\n"}
{"Action":"output","Package":"weft/a","Test":"TestPage","Output":"--- SKIP: TestPage (0.00s)\n"}
{"Action":"skip","Package":"weft/a","Test":"TestPage"}
{"Action":"output","Package":"weft/a","Test":"TestSilent/one","Output":"--- SKIP: TestSilent/one (0.00s)\n"}
{"Action":"skip","Package":"weft/a","Test":"TestSilent/one"}
{"Action":"output","Package":"weft/a","Output":"PASS\n"}
{"Action":"output","Package":"weft/a","Output":"ok  \tweft/a\t0.002s\n"}
{"Action":"pass","Package":"weft/a"}
{"Action":"output","Package":"weft/b","Test":"TestFail","Output":"    b_test.go:4: 1, want 2\n"}
{"Action":"output","Package":"weft/b","Test":"TestFail","Output":"--- FAIL: TestFail (0.00s)\n"}
{"Action":"fail","Package":"weft/b","Test":"TestFail"}
{"Action":"output","Package":"weft/b","Test":"TestExits","Output":"=== RUN   TestExits\n"}
{"Action":"output","Package":"weft/b","Output":"FAIL\tweft/b\t0.002s\n"}
{"Action":"fail","Package":"weft/b"}
{"Action":"output","Package":"weft/e","Output":"?   \tweft/e\t[no test files]\n"}
{"Action":"skip","Package":"weft/e"}
`
	const want = `c/c.go:2:23: cannot use x
ok  	weft/a	0.002s
=== RUN   TestFail
    b_test.go:4: 1, want 2
--- FAIL: TestFail (0.00s)
=== RUN   TestExits
FAIL	weft/b	0.002s
?   	weft/e	[no test files]
skipped: weft/a TestPage: a_test.go:4: tried twice a_test.go:5: there is no chromium
skipped: weft/a TestSilent/one: it gives no reason
`
	var got strings.Builder
	skipped, err := report(&got, strings.NewReader(events))
	if err != nil || got.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, &got, want)
	}
	_, err = report(&got, strings.NewReader("no event"))
	assert.Error(t, err, "no error of what is no event")

	const page, silent = "TestPage", "TestSilent/one"
	for may, want := range map[string][]string{
		"":                                      {page, silent},
		"\n":                                    {page, silent},
		"there is no chromium\n\tTestSilent":    {silent},
		"\nweft/b\nTestSilent":                  {page},
		"TestSilent/one: it gives\nno chromium": nil,
	} {
		err := refuse(skipped, may)
		for _, test := range []string{page, silent} {
			refused := err != nil && strings.Contains(err.Error(), test)
			if refused != slices.Contains(want, test) {
				t.Errorf("%q: %v, want %q refused", may, err, want)
			}
		}
	}
}
