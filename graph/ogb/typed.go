package ogb

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// readTyped reads a graph of several types into memory. Its first type is the one that has labels.
func readTyped(l layout, o Options) (*graph.Graph, error) {
	if err := o.checkTyped(); err != nil {
		return nil, err
	}
	f := &folder{Options: o, layout: l}
	g := &graph.Graph{Metric: known[nameOf(o.Folder)].metric, Provenance: o.provenance()}
	types, err := f.typesInOrder()
	if err != nil {
		return nil, err
	}
	var kept []string
	for k := range types {
		named, err := f.readVertices(&types[k])
		if err != nil {
			return nil, err
		}
		kept = append(kept, named...)
	}
	own := types[0]
	g.Type, g.Count, g.Features, g.Arrays, g.Others = own.Type, own.Count, own.Features, own.Arrays, types[1:]
	if err := f.readLabels(g, own); err != nil {
		return nil, err
	}
	if err := f.readRelations(g); err != nil {
		return nil, err
	}
	g.Notes, g.Warnings = append(sayKept(kept), f.notes...), f.warnings
	if err := g.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Folder, err)
	}
	if !o.Symmetrize {
		return g, nil
	}
	if g, err = g.Symmetrize(); err != nil {
		return nil, fmt.Errorf("%s: %w", refusal.Setting("symmetrize"), err)
	}
	return g, nil
}

// checkTyped refuses options that are for graphs of one type, and a split of triples.
func (o *Options) checkTyped() error {
	for flag, asked := range map[string]bool{
		"inverse-edges": o.Inverse == Add, "features-from-edges": o.FromEdges != "",
	} {
		if asked {
			return refusal.Errorf("%s: %s has several types of vertices, and this is for graphs of one; leave it out (%s adds "+
				"reverse relations)", refusal.Setting(flag), o.Folder, refusal.Setting("reverse-relations"))
		}
	}
	if o.Rule == nil {
		if path, err := o.splitFolder(); err == nil && isLinkSplit(path) {
			return refusal.Errorf("%s: %s", path, ofTriples)
		}
	}
	return nil
}

// typesInOrder lists the vertex types, the one that has labels first and the others as OGB's loader has
// them, which are the same from text and from archives.
func (f *folder) typesInOrder() ([]graph.VertexType, error) {
	types, err := f.types()
	if err != nil {
		return nil, err
	}
	labelled, err := f.labelled()
	if err != nil {
		return nil, err
	}
	if len(labelled) != 1 {
		return nil, refusal.Errorf("%s: the types that have labels are %d (%s), where graphs are read that have labels of one",
			f.name(), len(labelled), arrays.Listed(labelled))
	}
	f.counts = map[string]int{}
	for _, v := range types {
		if _, twice := f.counts[v.Type]; twice || v.Count < 0 || v.Count > math.MaxInt32 {
			return nil, refusal.Errorf("%s: the vertex type %.60q has %d vertices, or stands twice; %s",
				f.name(), v.Type, v.Count, fetchAgain)
		}
		f.counts[v.Type] = v.Count
	}
	if _, isType := f.counts[labelled[0]]; !isType {
		return nil, refusal.Errorf("%s: %.60q has labels and is no vertex type; %s", f.name(), labelled[0], fetchAgain)
	}
	slices.SortFunc(types, func(a, b graph.VertexType) int {
		if own := labelled[0]; (a.Type == own) != (b.Type == own) {
			if a.Type == own {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Type, b.Type)
	})
	return types, nil
}

// readVertices reads the features and arrays of a type, and returns what a note calls the arrays.
func (f *folder) readVertices(of *graph.VertexType) (kept []string, err error) {
	rows, err := f.rows(*of)
	if err != nil {
		return nil, err
	}
	if rows != nil {
		of.Features.Columns = rows.Columns
		err := rows.Each(func(block []float32) error {
			all := &of.Features.Dense
			if *all, err = memory.GrowTo(*all, len(block), int64(of.Count*rows.Columns)); err != nil {
				return rows.Refuse(err)
			}
			*all = append(*all, block...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	all, kept, err := f.arraysOf(*of)
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		read, err := a.Read(of.Count)
		if err != nil {
			return nil, err
		}
		of.Arrays = append(of.Arrays, read)
	}
	return kept, nil
}

// readRelations reads the edges of all relations.
func (f *folder) readRelations(g *graph.Graph) error {
	all, err := f.relations()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return refusal.Errorf("%s: lists no relation; %s", f.name(), fetchAgain)
	}
	slices.SortFunc(all, func(a, b triplet) int { return slices.Compare(a[:], b[:]) })
	if err := f.checkLists(f.typeNames(), all); err != nil {
		return err
	}
	lists, edges := make([]graph.Edges, len(all)), 0
	for k, r := range all {
		of, err := f.edgesOf(r)
		if err != nil {
			return err
		}
		if lists[k], err = of.Read(f.Progress); err != nil {
			return err
		}
		edges += lists[k].Len()
	}
	if err := f.checkClaims(g, all, edges); err != nil {
		return err
	}
	for k, r := range all {
		relation, err := graph.NewBipartite(f.counts[r[0]], f.counts[r[2]], lists[k])
		if err != nil {
			return refusal.Errorf("%s: relation %.100q: %w", f.name(), r, err)
		}
		relation.Source, relation.Name, relation.Target = r[0], r[1], r[2]
		g.Relations = append(g.Relations, relation)
		lists[k] = graph.Edges{}
	}
	f.note("%s of %s, without inverse ones (%s adds reverse relations)",
		arrays.Counted(edges, "edge"), arrays.Counted(len(all), "relation"), refusal.Setting("reverse-relations"))
	f.noteUnread(all)
	return nil
}

// checkClaims refuses vertices that are only claimed: no row of features or labels confirms them, and each of
// the relations, which have so many edges, takes memory for those of the types that it joins.
func (f *folder) checkClaims(g *graph.Graph, relations []triplet, edges int) error {
	rows, taken := g.Count, 0 // the first type has labels
	for _, v := range g.Others {
		if v.Features.Columns > 0 {
			rows += v.Count
		} else if most := arrays.MaxVertices(edges); int64(v.Count) > most {
			return refusal.Errorf("%s: %d vertices of the type %.60q with only %d edges: at most %d are read",
				f.name(), v.Count, v.Type, edges, most)
		}
	}
	for _, r := range relations {
		taken += max(f.counts[r[0]], f.counts[r[2]])
	}
	if most := arrays.MaxClaims(edges + rows); int64(taken) > most {
		return refusal.Errorf("%s: %d vertices, counted once for each of %d relations, with only %d edges and %d rows of "+
			"features and labels: at most %d are read", f.name(), taken, len(relations), edges, rows, most)
	}
	return nil
}
