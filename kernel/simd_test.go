package kernel_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weft/kernel"
)

// TestBFloat16Products: in each way that this processor has, products of bfloat16s agree with the reference,
// and a row has the same bits wherever it stands. WEFT_BF16 chooses a way for a process, also for oneDNN, and
// refuses impossible ways.
func TestBFloat16Products(t *testing.T) {
	if os.Getenv("WEFT_BF16") != "" {
		t.Skip("WEFT_BF16 is set")
	}
	run := func(way string) (string, error) {
		tests := "^(TestBFloat16Way|TestRowOfAProduct|TestConformanceBFloat16)$/product$"
		if way == kernel.BFloat16Products() { // all tests run in this way in this process
			tests = "^(TestBFloat16Way|TestConformanceBFloat16)$/^product$"
		}
		test := exec.Command(os.Args[0], "-test.v", "-test.run", tests)
		test.Env = append(os.Environ(), "WEFT_BF16="+way, "ONEDNN_VERBOSE=1")
		out, err := test.CombinedOutput()
		return string(out), err
	}
	out, err := run("int8")
	list := regexp.MustCompile(`^weft: WEFT_BF16=int8: it is one of (.*) here; unset it to take the best\n$`).
		FindStringSubmatch(out)
	if err == nil || list == nil {
		t.Fatalf("an unknown way: %v\n%s", err, out)
	}
	ways := strings.Split(list[1], ", ")
	if ways[0] != "f32" {
		t.Errorf("ways %v lack f32", ways)
	}
	takes := []*regexp.Regexp{ // lines of oneDNN's log, from the second way on
		regexp.MustCompile(`(?m)^onednn_verbose,exec,.*avx512_core_bf16`),
		regexp.MustCompile(`(?m)^onednn_verbose,exec,.*amx`),
	}
	for _, way := range ways {
		out, err := run(way)
		for i, calls := range takes {
			number := slices.Index([]string{"f32", "avx512_bf16", "amx"}, way)
			found := calls.FindString(out)
			if (number == i+1 && found == "") || (number <= i && found != "") {
				t.Errorf("%s: oneDNN's call for %v is %q", way, calls, found)
			}
		}
		if err != nil || !strings.Contains(out, "bfloat16s by "+way+"\n") ||
			!strings.Contains(out, "--- PASS: TestConformanceBFloat16/") {
			t.Errorf("%s: %v\n%s", way, err, out)
		}
	}
}

// TestBFloat16Way says which way this process has.
func TestBFloat16Way(t *testing.T) { t.Log("bfloat16s by " + kernel.BFloat16Products()) }
