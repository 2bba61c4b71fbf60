package inference

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"time"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/reports"
)

//go:embed page/explain.html
var explainPage string

// explainedPage is what the page's template shows.
type explainedPage struct {
	*explanation
	Heading, Method, Secondly, Version, Made string
	Style                                    template.CSS
	Lines                                    []line
	Dots                                     []dot
}

// line is an edge in the picture.
type line struct {
	X1, Y1, X2, Y2, Width, Share float64
	Class, Title                 string
}

// dot is a vertex in the picture.
type dot struct {
	X, Y, R, Below, Share float64
	Class, Title, Name    string
}

// end is a vertex of a type.
type end struct {
	kind int
	id   int32
}

// page is a page about the explanation.
func (x *explanation) page() *explainedPage {
	p := &explainedPage{
		explanation: x, Heading: x.heading(), Method: x.method(), Secondly: x.secondly(),
		Version: cli.Version, Made: time.Now().Format(time.DateTime), Style: reports.PartsWith("").Style,
	}
	p.draw()
	return p
}

// ends are the vertices of an edge.
func (x *explanation) ends(e *explainedEdge) (source, target end) {
	g := x.pass.graph
	from, to, _ := g.Joins(&g.Relations[e.relation]) // which an open graph has
	return end{from, e.stored.Source}, end{to, e.stored.Target}
}

// explained are the explained vertex, or the ends of the explained edge.
func (x *explanation) explained() []end {
	if x.Edge == nil {
		return []end{{0, *x.ID}}
	}
	g := x.pass.graph
	source, target, _ := g.Joins(g.Relation(x.pass.target)) // which an open graph has
	return []end{{source, x.row.Edges.Source[0]}, {target, x.row.Edges.Target[0]}}
}

// hops returns how many edges each vertex is away from the explained ones, along the listed edges.
func (x *explanation) hops() map[end]int {
	linked := map[end][]end{}
	for k := range x.edges {
		source, target := x.ends(&x.edges[k])
		linked[source], linked[target] = append(linked[source], target), append(linked[target], source)
	}
	away, queue := map[end]int{}, x.explained()
	for _, v := range queue {
		away[v] = 0
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, v := range linked[queue[0]] {
			if _, seen := away[v]; !seen {
				away[v] = away[queue[0]] + 1
				queue = append(queue, v)
			}
		}
	}
	return away
}

// draw places the strongest edges and their ends on rings around the vertex.
func (p *explainedPage) draw() {
	const most = 40 // edges
	const ring, between = 300., 90.
	x, away, its := p.explanation, p.hops(), p.explained()
	shown := x.strongest(most)
	rings := [][]end{nil}
	placed, names := map[end]bool{}, map[end]string{}
	for _, node := range its {
		if !placed[node] {
			rings[0] = append(rings[0], node)
		}
		placed[node], names[node] = true, x.Vertex
	}
	if x.Edge != nil {
		names[its[0]], names[its[1]] = x.Edge.Source, x.Edge.Target
	}
	strength := 0.
	for k := range shown {
		e := &shown[k]
		source, target := x.ends(e)
		names[source], names[target] = e.Source, e.Target
		strength = max(strength, math.Abs(e.Contribution))
		for _, v := range []end{source, target} {
			if placed[v] {
				continue
			}
			placed[v] = true
			for len(rings) <= away[v] {
				rings = append(rings, nil)
			}
			rings[away[v]] = append(rings[away[v]], v)
		}
	}
	at := map[end][2]float64{}
	for hop, list := range rings {
		for k, v := range list {
			radius := ring * float64(hop) / float64(max(1, len(rings)-1))
			if hop == 0 && len(list) > 1 { // the ends of an explained edge
				radius = between / 2
			}
			angle := 2*math.Pi*(float64(k)+.5*float64(hop-1))/float64(len(list)) - math.Pi/2
			sin, cos := math.Sincos(angle)
			at[v] = [2]float64{math.Round(radius * cos), math.Round(radius * sin)}
		}
	}
	class := func(c float64) string {
		if c < 0 {
			return "down"
		}
		return "up"
	}
	share := func(c, scale float64) float64 {
		if scale == 0 {
			return .3
		}
		return math.Round(100*(.3+.7*math.Abs(c)/scale)) / 100
	}
	if x.Edge != nil {
		from, to := at[its[0]], at[its[1]]
		p.Lines = append(p.Lines, line{
			X1: from[0], Y1: from[1], X2: to[0], Y2: to[1], Width: 8, Share: .3, Class: "it",
			Title: p.Heading,
		})
	}
	for k := range slices.Backward(shown) { // the strongest edges lie above the others
		e := &shown[k]
		source, target := x.ends(e)
		from, to := at[source], at[target]
		l := line{
			X1: from[0], Y1: from[1], X2: to[0], Y2: to[1], Class: class(e.Contribution),
			Share: share(e.Contribution, strength), Title: e.Text() + ": " + signed(e.Contribution),
		}
		l.Width = math.Round(60*l.Share) / 10
		if e.Removed {
			l.Class += " gone"
		}
		p.Lines = append(p.Lines, l)
	}
	sums, largest := map[end]float64{}, 0.
	for _, v := range x.all {
		sums[end{v.kind, v.id}] = v.Contribution
		if placed[end{v.kind, v.id}] {
			largest = max(largest, math.Abs(v.Contribution))
		}
	}
	for _, list := range rings {
		for _, v := range list {
			d := dot{
				X: at[v][0], Y: at[v][1], Class: class(sums[v]), Share: share(sums[v], largest),
				Name:  names[v],
				Title: fmt.Sprintf("%s: %s", names[v], signed(sums[v])),
			}
			d.R = math.Round(16 * d.Share)
			if slices.Contains(its, v) {
				d.Class += " it"
			}
			d.Below = d.Y + d.R + 12
			p.Dots = append(p.Dots, d)
		}
	}
}

// write writes the page.
func (p *explainedPage) write(to io.Writer) error {
	page, err := template.New("explain").Funcs(template.FuncMap{"signed": signed}).Parse(explainPage)
	if err != nil {
		return err
	}
	return page.Execute(to, p)
}
