package session

import (
	"errors"
	"fmt"
	"strings"

	"weft/graph"
	"weft/train/setting"
)

// Stored are the stores of a session as they were when it was opened, even if others take their place.
type Stored struct {
	ID     string // the graph.ID of the graph's store
	graphs []*graph.Graph
	sum    string // "": not computed yet
}

// Stores are the store of the session's graph and, if there is one, of the validation graph.
func (s *Session) Stores() []string {
	if s.Validated == nil {
		return []string{s.Store}
	}
	return []string{s.Store, s.Validated.Store}
}

// Hold keeps the stores of a session as they are now, on the first rank. It fails if the graph's store has
// another graph.ID than before the session was opened, as while weft append writes.
func (s *Session) Hold(before string) error {
	return s.OnFirst(func() (err error) {
		s.Stored = &Stored{}
		for _, store := range s.Stores() {
			g, err := graph.Open(store)
			if err != nil {
				return err
			}
			s.Stored.graphs = append(s.Stored.graphs, g)
		}
		if s.Stored.ID, err = graph.ID(s.Store); err == nil && s.Stored.ID != before {
			err = fmt.Errorf("%s: changed while it was opened; start the run again", s.Store)
		}
		return err
	})
}

// Checksum is the checksum of the graphs. It reads all of them.
func (s *Stored) Checksum() (string, error) {
	if s.sum != "" {
		return s.sum, nil
	}
	var sums []string
	for _, g := range s.graphs {
		sum, err := g.Checksum()
		if err != nil {
			return "", err
		}
		sums = append(sums, sum)
	}
	s.sum = strings.Join(sums, " ")
	return s.sum, nil
}

// Learned is the graph, divided by the settings, and its rows that are learned.
func (s *Stored) Learned(o *setting.Options) (*graph.Graph, *graph.Frame, error) {
	g := s.graphs[0].Copy()
	if err := o.Divide(g); err != nil {
		return nil, nil, err
	}
	return g, g.Frame(o.Target(g)), nil
}

// ClassNames are the names of the learned classes in their order; nil: they have none. edgeLabel is the
// column of labels of edges.
func (s *Stored) ClassNames(edgeLabel string) []string {
	g := s.graphs[0]
	return g.Frame(g.Target(edgeLabel)).Labels.Names
}

// close closes the graphs.
func (s *Stored) close() (err error) {
	for _, g := range s.graphs {
		err = errors.Join(err, g.Close())
	}
	return err
}
