package data

import (
	"strings"

	"weft/graph"
)

// OneWays warns of new edges without their reverse where the import of the graph has stored each edge in both
// directions. edges are the new ones by relation.
func OneWays(g *graph.Graph, edges []graph.Edges) (warnings []string) {
	if strings.Contains(g.Provenance, "--symmetrize") && oneWay(&edges[0]) {
		warnings = append(warnings, "the store was imported with --symmetrize, and new edges are added as they are "+
			"listed: list each in both directions, too")
	}
	return warnings
}

// oneWay reports whether the reverse of an edge is not there, equally often.
func oneWay(e *graph.Edges) bool {
	more := map[[2]int32]int{}
	for k, u := range e.Source {
		more[[2]int32{u, e.Target[k]}]++
		more[[2]int32{e.Target[k], u}]--
	}
	for _, n := range more {
		if n != 0 {
			return true
		}
	}
	return false
}
