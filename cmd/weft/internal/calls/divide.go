package calls

import (
	"context"
	"fmt"
	"hash/crc32"
	"slices"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/session"
	"weft/comm"
	"weft/graph"
	"weft/internal/refusal"
	"weft/partition"
	"weft/train/setting"
)

// divided is a graph in partitions, which several models may share.
type divided struct {
	*session.Session
	number int // 0: only one model has it
	models int // how many models have it
}

// divide divides a graph for a model, unless it has been divided for another model.
func (s *server) divide(ctx context.Context, r *openRequest) (d *divided, a asked, err error) {
	if a, err = s.asked(r); err != nil {
		return nil, a, s.refuse(r.Call, r.Arguments, err)
	}
	resolved := a.settings
	if err := s.join(resolved, r); err != nil {
		return nil, a, err
	}
	if d = s.divided[r.Divided]; d == nil {
		d = &divided{number: r.Divided}
		ranks := cli.Alone()
		if resolved.Workers > 1 {
			ranks = s.ranks
		}
		if d.Session, err = s.openGraph(ctx, ranks, r, a); err != nil {
			return nil, a, err
		}
		err = session.DivideOnce(ctx, resolved, d.Job)
		if ranks.Comm.Size() > 1 {
			err = sameDivision(d.Session, resolved.Mesh.Partitions, err)
		}
		if err != nil {
			d.Close()
			return nil, a, err
		}
		if d.number > 0 {
			s.divided[d.number] = d
		}
	}
	d.models++
	d.Job.Options = resolved.Options
	return d, a, nil
}

// openGraph opens the graph of a request: a store, or one in memory, of which it assigns the vertices.
func (s *server) openGraph(ctx context.Context, ranks cli.Ranks, r *openRequest, a asked,
) (opened *session.Session, err error) {
	if r.Graph == nil {
		how := session.Opening{Apart: r.Apart && ranks.Comm.Size() > 1}
		return session.Open(ctx, ranks, data.Source{Name: a.operands[0]}, a.settings, s.show, how)
	}
	opened, assigned, err := s.inMemory(ctx, ranks, r.Graph, a.settings)
	if assigned != nil {
		s.before[a.settings.Mesh.Partitions] = assigned
	}
	return opened, err
}

// inMemory opens a graph in memory, of which it assigns the vertices; nil: there is one partition.
func (s *server) inMemory(ctx context.Context, ranks cli.Ranks, m *memoryGraph, o *setting.Resolved,
) (opened *session.Session, assigned *assignment, err error) {
	g, err := s.graph(m)
	if err == nil {
		assigned, err = s.assign(ctx, g, m, o)
	}
	if err := ranks.Together(err); err != nil {
		return nil, nil, err
	}
	if opened, err = session.InMemory(ranks, g, o); err != nil {
		return nil, nil, err
	}
	if assigned != nil {
		opened.Job.Assignment = assigned.all
	}
	return opened, assigned, nil
}

// assignment is an assignment of a graph in memory.
type assignment struct {
	all  *partition.Assignment // with the graphs of a batch
	bare *partition.Assignment // without them
	cut  float64               // the share of the edges that it cuts
}

// assign assigns the vertices of a graph in memory.
func (s *server) assign(ctx context.Context, g *graph.Graph, m *memoryGraph, o *setting.Resolved,
) (*assignment, error) {
	k := o.Mesh.Partitions
	u, err := s.unseen(g, m)
	if err != nil {
		return nil, err
	}
	if before := s.before[k]; before != nil {
		u.Before, u.Cut = before.bare, before.cut
	}
	a := &assignment{}
	switch {
	case m.Parts != 0:
		a.bare, err = s.parts(m.Parts, u, k)
	case k == 1:
		return nil, nil
	default:
		options := o.Assignment(u.Graph, k)
		if o.Balance == setting.Defaults().Balance {
			options.Method = session.PartitionMethod(&o.Options)
		}
		a.bare, err = u.Assign(ctx, options)
	}
	if err != nil {
		return nil, err
	}
	if a.cut = u.CutBy(a.bare.Parts); a.bare == u.Before {
		a.cut = u.Cut
	}
	all := *a.bare
	all.Parts = withGraphs(a.bare.Parts, u, g)
	a.all = &all
	return a, nil
}

// parts is the assignment that the caller has made.
func (s *server) parts(memory int, u *partition.Unseen, k int) (*partition.Assignment, error) {
	parts, err := s.integers(memory, u.Vertices())
	if err != nil {
		return nil, err
	}
	for v, p := range parts {
		if p < 0 || int(p) >= k {
			return nil, refusal.Errorf("partition_by: vertex %d is in partition %d, and there are %d, numbered from 0",
				v, p, k)
		}
	}
	return &partition.Assignment{K: k, Parts: slices.Clone(parts), Method: partition.File}, nil
}

// withGraphs adds the graphs of a batch to the parts: each goes where its first vertex is.
func withGraphs(parts []int32, u *partition.Unseen, g *graph.Graph) []int32 {
	if len(g.Types) == len(u.Types) {
		return parts
	}
	graphs := make([]int32, g.Types[len(u.Types)].Count)
	for j := range graphs {
		graphs[j] = -1
	}
	first := u.FirstIDs()
	for kind, numbers := range u.Batch {
		for v, j := range numbers {
			if graphs[j] < 0 {
				graphs[j] = parts[first[kind]+v]
			}
		}
	}
	for j := range graphs {
		graphs[j] = max(graphs[j], 0) // an empty one
	}
	return append(slices.Clone(parts), graphs...)
}

// sameDivision refuses processes that have divided a graph differently in memory. err is why this process has
// failed.
func sameDivision(opened *session.Session, partitions int, err error) error {
	if err := opened.Together(err); err != nil || opened.Job.Graph == nil || opened.Job.Parts == nil {
		return err
	}
	sum := crc32.NewIEEE()
	for p := range partitions {
		share, err := opened.Job.Parts.Open(p)
		if err != nil {
			return err
		}
		for kind := range share.Edges.Types {
			_, _ = sum.Write(comm.Bytes(share.Edges.Types[kind].IDs))
		}
	}
	return opened.Agree(fmt.Sprint(sum.Sum32()), func(rank int, _, _ string) error {
		return refusal.Errorf("rank %d divides the graph otherwise than rank 0, as it has other memory: give "+
			"partition=\"stream\", or a store with its partitions", rank)
	})
}

// closed closes a graph when its last model is closed.
func (s *server) closed(d *divided) {
	if d.models--; d.models == 0 {
		delete(s.divided, d.number)
		d.Close()
	}
}
