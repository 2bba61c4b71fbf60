// Package debian turns a machine's own Debian package index, the lists that apt-get update fetches, into a
// graph. Packages are vertices, relations between them edges, archive sections classes, and the words of the
// descriptions features. Package datasets has it under a name, and the command import debian reads it.
package debian

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// Lists is the folder in which apt keeps its lists.
const Lists = "/var/lib/apt/lists"

// Options are the choices that a user has.
type Options struct {
	Seed uint64 // for the random split
}

// Read makes the graph of the Packages lists in apt's folder dir. It leaves out lists of repositories whose
// InRelease or Release does not say "Origin: Debian". Security and updates lists are of that origin.
//
// Vertices are packages in the order of their names. If several lists, or architectures, have a package, the
// highest version counts. An edge b→a says that a depends on b: b is named in a's Depends, Pre-Depends,
// Recommends or Suggests, perhaps as one of several alternatives, and is a package in the lists, not a
// virtual one. The class is a's section without its area ("non-free/net" is "net"). A package without a
// section is unlabelled. Features are hashed words of the one-line description (see describe). There is one
// split: 60 % of the labelled packages train, 20 % validate, 20 % test.
//
// Read refuses a folder without such lists, and a list that cannot be read whole.
func Read(dir string, o Options) (*graph.Graph, error) {
	found, err := debianLists(dir)
	if err != nil {
		return nil, err
	}
	packages := map[string]entry{}
	for _, l := range found.lists {
		err := l.read(func(p entry) {
			if known, twice := packages[p.name]; !twice || compareVersions(p.version, known.version) > 0 {
				packages[p.name] = p
			}
		})
		if err != nil {
			return nil, err
		}
	}
	if len(packages) == 0 {
		return nil, refusal.Errorf("%s: its lists of the Debian origin have no package: run apt-get update",
			dir)
	}
	g, err := build(packages)
	if err != nil {
		return nil, err
	}
	if err := g.MakeSplits("random:60/20/20", 1, o.Seed); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	g.Provenance = found.provenance(dir)
	if len(found.unknown) > 0 {
		g.Warnings = append(g.Warnings, fmt.Sprintf("%s: lists not read, as no InRelease or Release file "+
			"says where they are from: %s; run apt-get update", dir, arrays.Listed(found.unknown)))
	}
	return g, nil
}

// build makes the graph of packages that have one version each.
func build(packages map[string]entry) (*graph.Graph, error) {
	const perPackage = 250 // bytes: entry, name, vertex, synopsis, class, and the bounds of its features
	if err := memory.Need(perPackage * int64(len(packages))); err != nil {
		return nil, err
	}
	entries := make([]entry, 0, len(packages))
	for _, p := range packages {
		entries = append(entries, p)
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	vertices := graph.VertexType{Frame: graph.Frame{Count: len(entries), Names: make([]string, len(entries))}}
	vertex := make(map[string]int32, len(entries))
	synopses := make([]string, len(entries))
	for v, p := range entries {
		vertices.Names[v], synopses[v] = p.name, p.synopsis
		vertex[p.name] = int32(v)
	}
	edges, err := dependencies(entries, vertex)
	if err != nil {
		return nil, err
	}
	relation, err := graph.NewRelation(len(entries), edges)
	if err != nil {
		return nil, err
	}
	if vertices.Features, err = describe(synopses); err != nil {
		return nil, err
	}
	vertices.Labels = sections(entries)
	return &graph.Graph{Types: []graph.VertexType{vertices}, Relations: []graph.Relation{relation}}, nil
}

// dependencies lists the edges b→a of all packages a, each once and without self loops.
func dependencies(entries []entry, vertex map[string]int32) (e graph.Edges, err error) {
	for a, p := range entries {
		start := len(e.Source)
		for name := range relationTargets(p.relations) {
			if b, exists := vertex[name]; exists && int(b) != a {
				if e.Source, err = memory.Append(e.Source, b); err != nil {
					return e, err
				}
			}
		}
		slices.Sort(e.Source[start:])
		e.Source = e.Source[:start+len(slices.Compact(e.Source[start:]))]
		for range len(e.Source) - start {
			if e.Target, err = memory.Append(e.Target, int32(a)); err != nil {
				return e, err
			}
		}
	}
	return e, nil
}

// sections makes classes from the sections, in the order of their names.
func sections(entries []entry) graph.Labels {
	l := graph.Labels{Class: make([]int64, len(entries))}
	for _, p := range entries {
		if s := withoutArea(p.section); s != "" {
			l.Names = append(l.Names, s)
		}
	}
	slices.Sort(l.Names)
	l.Names = slices.Compact(l.Names)
	l.Classes = len(l.Names)
	for v, p := range entries {
		c, found := slices.BinarySearch(l.Names, withoutArea(p.section))
		if !found {
			c = -1
		}
		l.Class[v] = int64(c)
	}
	return l
}

// withoutArea removes the archive area from a section: "net" of "net", "contrib/net",
// "non-free-firmware/net".
func withoutArea(section string) string { return section[strings.LastIndexByte(section, '/')+1:] }

// provenance says from which lists the graph is made, as the index changes from day to day.
func (x *index) provenance(dir string) string {
	described := make([]string, len(x.releases))
	for i, r := range x.releases {
		described[i] = fmt.Sprintf("%s of %s", r.codename, r.date)
	}
	return fmt.Sprintf("debian %s: %d Packages lists (%s), %d of other origins left out",
		dir, len(x.lists), strings.Join(described, "; "), x.others)
}
