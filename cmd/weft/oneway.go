package main

import (
	"fmt"
	"strings"

	"weft/graph"
)

// oneWays warns of new edges without their reverse where the import of the graph has added the reverse of each
// edge. edges are the new ones by relation.
func oneWays(g *graph.Graph, edges []graph.Edges) (warnings []string) {
	if strings.Contains(g.Provenance, "--symmetrize") && oneWay(&edges[0], &edges[0]) {
		warnings = append(warnings, "the store was imported with --symmetrize, and new edges are added as they are "+
			"listed: list each in both directions, too")
	}
	if !strings.Contains(g.Provenance, "--reverse-relations") {
		return warnings
	}
	for i := range g.Relations {
		for j := range g.Relations {
			r, back := g.Relations[i].Name, g.Relations[j].Name
			if back == graph.ReversePrefix+r && oneWay(&edges[i], &edges[j]) {
				warnings = append(warnings, fmt.Sprintf("the store was imported with --reverse-relations, and new "+
					"edges are added as they are listed: list those of %s in %s, too, with source and target "+
					"exchanged", r, back))
			}
		}
	}
	return warnings
}

// oneWay reports whether the reverse of an edge of one list is not in the other, equally often.
func oneWay(edges, reverse *graph.Edges) bool {
	more := map[[2]int32]int{}
	for k, u := range edges.Source {
		more[[2]int32{u, edges.Target[k]}]++
	}
	for k, u := range reverse.Source {
		more[[2]int32{reverse.Target[k], u}]--
	}
	for _, n := range more {
		if n != 0 {
			return true
		}
	}
	return false
}
