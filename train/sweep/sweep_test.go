package sweep

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// A grid has every combination once, the last setting changing fastest.
func TestGrid(t *testing.T) {
	s, err := parse([]byte("settings: {model: gcn}\ngrid:\n  lr: [0.1, 1e-3]\n  residual: [true, false]\n"))
	require.NoError(t, err)
	var got []string
	for _, c := range s.Combinations {
		got = append(got, fmt.Sprint(c, " ", c.Flags()))
	}
	want := []string{
		"lr 0.1, residual true [--model=gcn --lr=0.1 --residual=true]",
		"lr 0.1, residual false [--model=gcn --lr=0.1 --residual=false]",
		"lr 1e-3, residual true [--model=gcn --lr=1e-3 --residual=true]",
		"lr 1e-3, residual false [--model=gcn --lr=1e-3 --residual=false]",
	}
	assert.Equal(t, want, got)
}

// A value of a grid may be several settings at once, beside values of one.
func TestSettingsTogether(t *testing.T) {
	s, err := parse([]byte("grid:\n  model: [gcn, {model: gat, heads: 2}]\n  lr: [0.1, 0.2]\n"))
	require.NoError(t, err)
	var got []string
	for _, c := range s.Combinations {
		got = append(got, strings.Join(c.Flags(), " "))
	}
	assert.Equal(t, []string{
		"--model=gcn --lr=0.1", "--model=gcn --lr=0.2",
		"--model=gat --heads=2 --lr=0.1", "--model=gat --heads=2 --lr=0.2",
	}, got)
	_, err = parse([]byte("grid: {model: [{heads: [1, 2]}]}\n"))
	assert.EqualError(t, err, "grid: model: heads: a single value was expected")
}

// TestMisplacedSettings: a setting in the place of a key is told where settings stand.
func TestMisplacedSettings(t *testing.T) {
	const stand = "; it is a setting, and these stand under settings, as in settings: {%s: …}, or with " +
		"values to try under grid"
	for file, want := range map[string]string{
		"dataset: g\nmodel: gcn\ngrid: {lr: [1, 2]}\n": `line 2: unknown field "model"` +
			fmt.Sprintf(stand, "model"),
		"random:\n  runs: 3\n  lr: {uniform: [0, 1]}\n": `line 3: unknown field "lr"` +
			fmt.Sprintf(stand, "lr"),
		"dataset: g\nmodels: [gcn]\ngrid: {lr: [1, 2]}\n": `line 2: unknown field "models"`,
	} {
		_, err := parse([]byte(file))
		assert.EqualError(t, err, want, "%q", file)
	}
}

// TestIntegers: what is drawn of a range of integers is that of the generator in the package math/rand/v2,
// for each seed and run, over whatever range; ends that are none are refused.
func TestIntegers(t *testing.T) {
	const file = "random:\n  runs: 200\n  seed: %d\n  settings: {seed: {integers: [%s]}}\n"
	for _, c := range []struct {
		ends string
		want func(*rand.Rand) int64
	}{
		{"2, 64", func(r *rand.Rand) int64 { return 2 + r.Int64N(63) }},
		{"7, 7", func(*rand.Rand) int64 { return 7 }},
		{"1e2, 1e3", func(r *rand.Rand) int64 { return 100 + r.Int64N(901) }},
		{"0, 9223372036854775807", func(r *rand.Rand) int64 { return int64(r.Uint64N(1 << 63)) }},
		{
			"9223372036854775806, 9223372036854775807",
			func(r *rand.Rand) int64 { return math.MaxInt64 - 1 + r.Int64N(2) },
		},
	} {
		for _, seed := range []uint64{1, 2} {
			s, err := parse(fmt.Appendf(nil, file, seed, c.ends))
			require.NoError(t, err, c.ends)
			for k, got := range s.Combinations {
				require.Equal(t, fmt.Sprint(c.want(rand.New(rand.NewPCG(seed, uint64(k))))), got[0].Value,
					"%s: run %d", c.ends, k)
			}
		}
	}
	whole, err := integers("-9223372036854775808", "9223372036854775807")
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprint(int64(rand.New(rand.NewPCG(1, 2)).Uint64())),
		whole(rand.New(rand.NewPCG(1, 2))), "of all integers")
	for _, ends := range []string{
		"0, 18446744073709551615", "-1e19, 0", "9223372036854775807, 9223372036854775806",
	} {
		const want = "a smaller and a larger one between -9223372036854775808 and 9223372036854775807 " +
			"were expected"
		if _, err := parse(fmt.Appendf(nil, file, 1, ends)); err == nil ||
			!strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", ends, err)
		}
	}
}

// TestOneDocument: a second YAML document is refused, and not passed over.
func TestOneDocument(t *testing.T) {
	for text, want := range map[string]string{
		"grid: {lr: [1]}\n":                          "",
		"---\ngrid: {lr: [1]}\n":                     "",
		"grid: {lr: [1]}\n---\ngrid: {lr: [1, 2]}\n": "holds several YAML documents; one was expected",
		"": "one of grid and random was expected: which values to try of which settings",
	} {
		if _, err := parse([]byte(text)); err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Half the values of a log-uniform range lie below its geometric mean, and half of a uniform one below its
// middle. Integers come from both ends.
func TestRandom(t *testing.T) {
	const file = `
random:
  runs: 2000
  seed: 3
  settings:
    lr: {log-uniform: [1e-4, 1]}
    dropout: {uniform: [0.2, 0.6]}
    layers: {integers: [2, 4]}
`
	s, err := parse([]byte(file))
	require.NoError(t, err)
	below, layers := [2]float64{}, map[string]int{}
	for _, c := range s.Combinations {
		for k, bounds := range [][3]float64{{1e-4, 1e-2, 1}, {.2, .4, .6}} {
			x, err := strconv.ParseFloat(c[k].Value, 64)
			if err != nil || x < bounds[0] || x > bounds[2] {
				t.Fatalf("%s is %s", c[k].Setting, c[k].Value)
			}
			if x < bounds[1] {
				below[k]++
			}
		}
		layers[c[2].Value]++
	}
	for k, n := range below { // five standard deviations of a fair coin
		assert.Near(t, 1000, n, 5*math.Sqrt(500), "of 2000 values of draw %d lie below the middle", k)
	}
	if len(layers) != 3 || layers["2"] < 500 || layers["3"] < 500 || layers["4"] < 500 {
		t.Errorf("layers %v", layers)
	}
	// A seed stands for the same draws in all versions, and another one for others
	for seed, want := range map[string]string{
		"3": "lr 0.22, dropout 0.366, layers 2; lr 0.0512, dropout 0.459, layers 2",
		"4": "lr 0.00285, dropout 0.436, layers 2; lr 0.0285, dropout 0.424, layers 4",
	} {
		s, err := parse(
			[]byte(strings.NewReplacer("seed: 3", "seed: "+seed, "runs: 2000", "runs: 2").Replace(file)))
		require.NoError(t, err)
		assert.Equal(t, want, fmt.Sprintf("%v; %v", s.Combinations[0], s.Combinations[1]), "seed %s draws",
			seed)
	}
	again, err := parse([]byte(file))
	if err != nil || !slices.EqualFunc(s.Combinations, again.Combinations,
		func(a, b Combination) bool { return slices.Equal(a, b) }) {
		t.Errorf("the same file draws others: %v", err)
	}
}

// TestWhatASweepMayBe: the most combinations and the ends of ranges are accepted, and what is beyond them is
// refused, with its reason. What a mesh that is chosen with the graph makes of settings is not checked here.
func TestWhatASweepMayBe(t *testing.T) {
	numbers := func(n int) string { return strings.TrimSuffix(strings.Repeat("1, ", n), ", ") }
	const ranges = "a list of values was expected, or a range as in {log-uniform: [1e-4, 1e-1]}, " +
		"{uniform: [0, 0.7]} or {integers: [2, 5]}"
	for file, want := range map[string]string{
		"settings: {parallel: auto}\ngrid: {lr: [" + numbers(100) + "], epochs: [" + numbers(100) + "]}": "",
		"settings: {parallel: auto}\ngrid: {lr: [" + numbers(100) + "], epochs: [" + numbers(101) +
			"]}": "grid: more than 10000 combinations; leave some values out, or draw some with random",
		"settings: {parallel: auto}\nrandom: {runs: 10000, settings: {lr: [1]}}": "",
		"random: {runs: 1, settings: {lr: [1]}}":                                 "",
		"random: {runs: 0, settings: {lr: [1]}}":                                 "random: runs 0: a number from 1 to 10000 was expected",
		"random: {runs: 10001, settings: {lr: [1]}}": "random: runs 10001: a " +
			"number from 1 to 10000 was expected",
		"random: {runs: 1, settings: {}}":                                        "random: settings: names no setting to draw",
		"random: {runs: 1, settings: {lr: {uniform: [1, 2, 3]}}}":                "random: lr: " + ranges,
		"random: {runs: 1, settings: {lr: {uniform: [1]}}}":                      "random: lr: " + ranges,
		"random: {runs: 1, settings: {lr: {uniform: [1, 2], integers: [1, 2]}}}": "random: lr: " + ranges,
		"random: {runs: 1, settings: {lr: {normal: [1, 2]}}}":                    "random: lr: " + ranges,
		"random: {runs: 1, settings: {lr: {uniform: [2, 2]}}}":                   "",
		"random: {runs: 1, settings: {lr: {uniform: [2, 1]}}}": "random: lr: uniform " +
			"[2, 1]: a smaller and a larger number were expected, above 0 for log-uniform",
		"random: {runs: 1, settings: {lr: {log-uniform: [0, 1]}}}":                        "random: lr: log-uniform [0, 1]: a smaller and a larger number were expected, above 0 for log-uniform",
		"random: {runs: 1, settings: {epochs: {integers: [0, 9.223372036854775808e18]}}}": "random: epochs: integers [0, 9.223372036854776e+18]: a smaller and a larger one between -9223372036854775808 and 9223372036854775807 were expected",
		"seeds: 10000\ngrid: {lr: [1]}":                                                   "",
		"seeds: 10001\ngrid: {lr: [1]}": "seeds: 10001: a number of runs of each combination from 1 to " +
			"10000 was expected",
		"seeds: 0\ngrid: {lr: [1]}": "seeds: 0: a number of runs of each combination from 1 to 10000 " +
			"was expected",
		"settings: {parallel: auto, model: gat, hidden: 64, heads: 3}\ngrid: {lr: [1]}": "",
		"settings: {model: gat, hidden: 64, heads: 3}\ngrid: {lr: [1]}":                 "with lr 1: --heads 3 does not divide --hidden 64: each head of gat gets an equal share of the hidden width",
		"settings: {lr: 1}\ngrid: {lr: [1]}":                                            "lr stands twice",
		"seeds: 2\ngrid: {seed: [1]}":                                                   "seed: stands beside seeds; leave one of them out",
		"settings: {lr: [1, 2]}\ngrid: {epochs: [1]}": "settings: lr: a single value was expected; lists " +
			"stand under grid or random",
		"dataset: g": "one of grid and random was expected: which values to try of which settings",
		"grid: {}":   "grid: is empty; name settings with the values to try, as in lr: [0.01, 0.1]",
	} {
		if _, err := parse([]byte(file)); want == "" && err != nil ||
			want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%.80s: %v, want %q", file, err, want)
		}
	}
}
