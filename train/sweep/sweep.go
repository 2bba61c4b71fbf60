// Package sweep reads which settings a sweep tries: every combination of a grid, or combinations drawn at
// random. The command sweep trains each combination.
package sweep

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"weft/internal/document"
	"weft/internal/number"
	"weft/internal/refusal"
	"weft/train/setting"
)

const (
	maxFile = 16 << 10 // bytes of a sweep's file
	// MaxRuns is how many combinations a sweep has at most.
	MaxRuns = 10_000
	// MaxSeeds is how many runs each combination has at most.
	MaxSeeds = 10_000
)

// Sweep is what a file asks for.
type Sweep struct {
	Dataset string // a name or a store; "": the file names none
	Config  string // a configuration file with which all runs begin; "": none
	Seeds   int    // runs of each combination, with as many seeds; 0: one
	// Combinations are the settings of each run, with the settings that all share.
	Combinations []Combination
	Files        []File // the files that the combinations name, each once
	Text         []byte // the contents of the sweep's file
}

// File is a file or a store that combinations name.
type File struct {
	setting.File
	Model string // the name of the combinations' model, or the class of their program
}

// Combination is the settings of a run, in the order of the file.
type Combination []Assignment

// Assignment gives a setting a value.
type Assignment struct {
	Setting string
	Value   string // in the form of a flag's value
	Shared  bool   // all combinations have it
}

// Flags are the assignments as flags of weft train.
func (c Combination) Flags() (flags []string) {
	for _, a := range c {
		flags = append(flags, "--"+a.Setting+"="+a.Value)
	}
	return flags
}

// String names the combination by the settings that it does not share, as in "lr 0.01, hidden 64".
func (c Combination) String() string {
	var parts []string
	for _, a := range c {
		if !a.Shared {
			parts = append(parts, a.Setting+" "+a.Value)
		}
	}
	return strings.Join(parts, ", ")
}

// file is the file of a sweep.
type file struct {
	Dataset  string        `yaml:"dataset"`
	Config   string        `yaml:"config"`
	Settings yaml.MapSlice `yaml:"settings"` // of all runs
	Grid     yaml.MapSlice `yaml:"grid"`     // lists of values
	Random   *random       `yaml:"random"`
	Seeds    *int          `yaml:"seeds"`
}

// random are combinations that are drawn.
type random struct {
	Runs     int           `yaml:"runs"`
	Seed     uint64        `yaml:"seed"`
	Settings yaml.MapSlice `yaml:"settings"` // lists of values, or ranges
}

// Read reads a sweep's file. It refuses, naming the file, an unknown key or setting, a value that a setting
// does not accept, and a combination that makes no sense.
func Read(path string) (*Sweep, error) {
	text, err := document.Read(path, maxFile)
	if err != nil {
		return nil, err
	}
	s, err := parse(text)
	if err != nil {
		return nil, refusal.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func parse(text []byte) (*Sweep, error) {
	var f file
	documents := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict(), yaml.UseOrderedMap())
	if err := documents.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, oneLine(err)
	}
	if err := documents.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, setting.ErrSeveralDocuments
	}
	s := &Sweep{Dataset: f.Dataset, Config: f.Config, Text: text}
	if f.Seeds != nil {
		s.Seeds = *f.Seeds
	}
	var shared Combination
	for _, item := range f.Settings {
		values, err := list(item)
		if err != nil {
			return nil, err
		}
		if len(values) != 1 {
			return nil, fmt.Errorf("settings: %v: a single value was expected; lists stand under "+
				"grid or random", item.Key)
		}
		shared = append(shared, Assignment{fmt.Sprint(item.Key), values[0], true})
	}
	var err error
	switch {
	case f.Seeds != nil && (s.Seeds < 1 || s.Seeds > MaxSeeds):
		return nil, fmt.Errorf("seeds: %d: a number of runs of each combination from 1 to %d was expected",
			s.Seeds, MaxSeeds)
	case (f.Random != nil) == (f.Grid != nil):
		return nil, errors.New("one of grid and random was expected: which values to try of which settings")
	case f.Random == nil && len(f.Grid) == 0:
		return nil, errors.New("grid: is empty; name settings with the values to try, as in lr: [0.01, 0.1]")
	case f.Random != nil:
		s.Combinations, err = f.Random.draw(shared)
	default:
		s.Combinations, err = grid(shared, f.Grid)
	}
	if err != nil {
		return nil, err
	}
	return s, s.check()
}

// oneLine makes one line of a parser's error. If a setting stands in the wrong place, it says where settings
// stand.
func oneLine(err error) error {
	yamlErr := setting.YAMLError(err)
	field := new(yaml.UnknownFieldError)
	if !errors.As(err, &field) || field.GetToken() == nil {
		return yamlErr
	}
	key := field.GetToken().Value
	if slices.ContainsFunc(setting.All(), func(known setting.Setting) bool { return known.Name == key }) {
		return fmt.Errorf("%w; it is a setting, and these stand under settings, as in settings: {%s: …}, "+
			"or with values to try under grid", yamlErr, key)
	}
	return yamlErr
}

// list returns the values of an item: a list of them, or a single one.
func list(item yaml.MapItem) (values []string, err error) {
	entries, many := item.Value.([]any)
	if !many {
		entries = []any{item.Value}
	}
	for _, e := range entries {
		switch e.(type) {
		case nil, []any, yaml.MapSlice:
			return nil, fmt.Errorf("%v: values were expected, as in [16, 32]", item.Key)
		}
		values = append(values, fmt.Sprint(e))
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("%v: has no value", item.Key)
	}
	return values, nil
}

// choices returns the assignments for each value of an item. A value may be several settings at once, as
// {program: a.json, init: a.safetensors} under model. The item's name is then no setting.
func choices(item yaml.MapItem) (all [][]Assignment, err error) {
	entries, _ := item.Value.([]any)
	isGroup := func(e any) bool { _, several := e.(yaml.MapSlice); return several }
	if !slices.ContainsFunc(entries, isGroup) {
		entries = []any{item.Value}
	}
	for _, entry := range entries {
		settings, several := entry.(yaml.MapSlice)
		if !several {
			values, err := list(yaml.MapItem{Key: item.Key, Value: entry})
			if err != nil {
				return nil, err
			}
			for _, v := range values {
				all = append(all, []Assignment{{fmt.Sprint(item.Key), v, false}})
			}
			continue
		}
		var assigned []Assignment
		for _, pair := range settings {
			values, err := list(pair)
			if err != nil || len(values) != 1 {
				return nil, fmt.Errorf("%v: %v: a single value was expected", item.Key, pair.Key)
			}
			assigned = append(assigned, Assignment{fmt.Sprint(pair.Key), values[0], false})
		}
		all = append(all, assigned)
	}
	return all, nil
}

// grid is every combination. The last setting changes fastest.
func grid(shared Combination, items yaml.MapSlice) ([]Combination, error) {
	all := []Combination{shared}
	for _, item := range items {
		values, err := choices(item)
		if err != nil {
			return nil, fmt.Errorf("grid: %w", err)
		}
		if len(all)*len(values) > MaxRuns {
			return nil, fmt.Errorf("grid: more than %d combinations; leave some values out, or draw some "+
				"with random", MaxRuns)
		}
		var next []Combination
		for _, c := range all {
			for _, v := range values {
				next = append(next, append(slices.Clone(c), v...))
			}
		}
		all = next
	}
	return all, nil
}

// draw draws the combinations. The same file gives the same combinations.
func (r *random) draw(shared Combination) (all []Combination, err error) {
	if r.Runs < 1 || r.Runs > MaxRuns {
		return nil, fmt.Errorf("random: runs %d: a number from 1 to %d was expected", r.Runs, MaxRuns)
	}
	if len(r.Settings) == 0 {
		return nil, errors.New("random: settings: names no setting to draw")
	}
	var draws []func(*rand.Rand) string
	for _, item := range r.Settings {
		draw, err := distribution(item)
		if err != nil {
			return nil, fmt.Errorf("random: %w", err)
		}
		draws = append(draws, draw)
	}
	for k := range r.Runs {
		source := rand.New(rand.NewPCG(r.Seed, uint64(k)))
		c := slices.Clone(shared)
		for i, item := range r.Settings {
			c = append(c, Assignment{fmt.Sprint(item.Key), draws[i](source), false})
		}
		all = append(all, c)
	}
	return all, nil
}

// distribution returns a function that draws values of a setting: from a list, or uniform, log-uniform or
// integers between the least and the largest value.
func distribution(item yaml.MapItem) (func(*rand.Rand) string, error) {
	between, ranged := item.Value.(yaml.MapSlice)
	if !ranged {
		values, err := list(item)
		return func(r *rand.Rand) string { return values[r.IntN(len(values))] }, err
	}
	const expected = "%v: a list of values was expected, or a range as in {log-uniform: [1e-4, 1e-1]}, " +
		"{uniform: [0, 0.7]} or {integers: [2, 5]}"
	if len(between) != 1 {
		return nil, fmt.Errorf(expected, item.Key)
	}
	ends, err := list(between[0])
	if err != nil || len(ends) != 2 {
		return nil, fmt.Errorf(expected, item.Key)
	}
	low, errLow := number.Parse(ends[0], 64)
	high, errHigh := number.Parse(ends[1], 64)
	kind := fmt.Sprint(between[0].Key)
	switch {
	case errLow != nil || errHigh != nil || !(low <= high) || math.IsInf(high-low, 0) ||
		kind == "log-uniform" && low <= 0:
		return nil, fmt.Errorf("%v: %s [%s, %s]: a smaller and a larger number were expected, above 0 for "+
			"log-uniform", item.Key, kind, ends[0], ends[1])
	case kind == "uniform":
		return func(r *rand.Rand) string { return short(low + r.Float64()*(high-low)) }, nil
	case kind == "log-uniform":
		return func(r *rand.Rand) string { return short(low * math.Pow(high/low, r.Float64())) }, nil
	case kind == "integers" && low == math.Trunc(low) && high == math.Trunc(high):
		draw, err := integers(ends[0], ends[1])
		if err != nil {
			return nil, fmt.Errorf("%v: %w", item.Key, err)
		}
		return draw, nil
	}
	return nil, fmt.Errorf(expected, item.Key)
}

// integers draws from the integers between the ends, both included. An end may be written as 1e3.
func integers(least, largest string) (func(*rand.Rand) string, error) {
	var ends [2]int64
	for k, text := range []string{least, largest} {
		n, err := strconv.ParseInt(text, 10, 64)
		if x, _ := number.Parse(text, 64); errors.Is(err, strconv.ErrSyntax) && math.Abs(x) < 1<<63 {
			n, err = int64(x), nil
		}
		if err != nil || k > 0 && n < ends[0] {
			return nil, fmt.Errorf("integers [%s, %s]: a smaller and a larger one between %d and %d "+
				"were expected", least, largest, math.MinInt64, math.MaxInt64)
		}
		ends[k] = n
	}
	more := uint64(ends[1] - ends[0]) // the difference is right even if it wraps
	return func(r *rand.Rand) string {
		if more == math.MaxUint64 {
			return strconv.FormatInt(int64(r.Uint64()), 10)
		}
		return strconv.FormatInt(ends[0]+int64(r.Uint64N(more+1)), 10)
	}, nil
}

// short writes a number with three digits, as drawn values have.
func short(x float64) string {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64)
	return fmt.Sprint(rounded)
}

// check refuses combinations that a run would refuse, as far as can be told without the graph. It notes which
// files they name.
func (s *Sweep) check() error {
	all := setting.All()
	for _, c := range s.Combinations {
		o := setting.Defaults()
		if s.Config != "" {
			if err := setting.ReadConfig(s.Config, &o); err != nil {
				return err
			}
		}
		var supplied []string
		for _, a := range c {
			k := slices.IndexFunc(all, func(known setting.Setting) bool { return known.Name == a.Setting })
			switch {
			case k < 0:
				return fmt.Errorf("unknown setting %q; %s", a.Setting, setting.Unknown(a.Setting))
			case slices.Contains(supplied, a.Setting):
				return fmt.Errorf("%s stands twice", a.Setting)
			case a.Setting == "seed" && s.Seeds > 0:
				return errors.New("seed: stands beside seeds; leave one of them out")
			}
			if err := all[k].Set(&o, a.Value); err != nil {
				return fmt.Errorf("%s %s: %w", a.Setting, a.Value, err)
			}
			supplied = append(supplied, a.Setting)
		}
		if err := o.ReadFiles(); err != nil {
			return fmt.Errorf("with %s: %w", c, err)
		}
		for _, f := range o.Files() {
			if f := (File{f, o.Model}); !slices.Contains(s.Files, f) {
				s.Files = append(s.Files, f)
			}
		}
		if o.Parallel == setting.Auto {
			continue // the mesh is chosen with the graph
		}
		if _, err := o.Resolve(supplied...); err != nil {
			return fmt.Errorf("with %s: %w", c, err)
		}
	}
	return nil
}
