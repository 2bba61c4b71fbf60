package task

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weft/graph"
)

// Split says which rows train, validate and test. Its text form is the text of one of its fields.
type Split struct {
	Number int // the number of a stored split, from 0
	// Rule makes a split in place of the stored ones, as graph.ParseSplit reads it; "": there is none.
	Rule string
}

// UnmarshalText implements encoding.TextUnmarshaler. It reads "1" and "random:60/20/20".
func (s *Split) UnmarshalText(text []byte) error {
	if number, err := strconv.Atoi(string(text)); err == nil {
		if number < 0 {
			return errors.New("must be at least 0, as stored splits count from there")
		}
		*s = Split{Number: number}
		return nil
	}
	rule := string(text)
	drawn := "random:" + rule
	if _, err := graph.ParseSplit(drawn); err == nil {
		return fmt.Errorf("names no rule; %s draws one", drawn)
	}
	_, err := graph.ParseSplit(rule)
	if reason, found := strings.CutPrefix(fmt.Sprint(err), "--split "+rule+": "); found {
		return errors.New(reason)
	}
	if err != nil || rule == "given" {
		return errors.New("must be the number of a stored split, or a rule: random:60/20/20, " +
			"stratified:60/20/20, per-class=20,30, per-class=20,=500,=1000, graphs:60/20/20 or, of edges with labels, " +
			"time:COLUMN=2024-01-01,2024-02-01 or column:NAME")
	}
	*s = Split{Rule: rule}
	return nil
}

func (s Split) String() string {
	if s.Rule != "" {
		return s.Rule
	}
	return strconv.Itoa(s.Number)
}

// Make gives the graph the split of the rule, if there is one, in place of its splits in memory. A seed draws
// the same rows in any process. Make refuses a rule that the labels do not allow.
func (s Split) Make(g *graph.Graph, seed uint64) error {
	if s.Rule == "" {
		return nil
	}
	return g.Guard(func() error { return g.MakeSplits(s.Rule, 1, seed) })
}

// MakeOfEdges is Make for the edges that have labels of that name, by graph.Relation.HasLabel.
func (s Split) MakeOfEdges(g *graph.Graph, label string, seed uint64) error {
	if s.Rule == "" {
		return nil
	}
	return g.Guard(func() error {
		relations := slices.Clone(g.Relations)
		for i := range relations {
			if relations[i].HasLabel(label) {
				if err := relations[i].MakeSplits(s.Rule, 1, seed); err != nil {
					return err
				}
			}
		}
		g.Relations = relations
		return nil
	})
}
