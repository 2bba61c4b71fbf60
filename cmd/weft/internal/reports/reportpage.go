package reports

import (
	"cmp"
	_ "embed"
	"html/template"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/train/metric"
	"weft/train/rundir"
)

// The page of a report, and uPlot, which draws its curves.
var (
	//go:embed page/report.html
	reportPage string
	//go:embed page/report.css
	reportStyle template.CSS
	//go:embed page/report.js
	reportScript template.JS
	//go:embed page/charts.js
	chartsScript template.JS
	//go:embed page/uPlot.iife.min.js
	chartScript template.JS
	//go:embed page/uPlot.min.css
	chartStyle template.CSS
)

// parts are the style and the scripts of a page that draws curves.
type parts struct {
	Style, ChartStyle     template.CSS
	Script, Charts, Chart template.JS
}

// PartsWith are the parts of a page with this script of its own.
func PartsWith(script template.JS) parts {
	return parts{reportStyle, chartStyle, script, chartsScript, chartScript}
}

// reportContents is what the page's template shows.
type reportContents struct {
	Title, Version, Made string
	parts
	Answers   []answer
	Runs      []*reportRun
	Differ    []string
	Metrics   bool   // the runs have several metrics
	Ended     bool   // a run has not ended with its last epoch
	Drawn     string // which runs have curves; "": all
	Curves    []chart
	Constants []string       // what charts in which no curve changes would show
	Memory    []*memoryChart // in the order of the runs that have one
}

// mostDrawn is the largest number of runs with curves. The page's style has a color for each, which can be
// told apart on light and dark pages, also by people who see fewer colors.
const mostDrawn = 12

// newReportPage reads the runs. It calls unread with what is missing of a run.
func newReportPage(dirs []string, title string, now time.Time, unread func(error)) (*reportContents, error) {
	p := &reportContents{
		Title: title, Version: cli.Version, Made: now.Format(time.DateTime),
		parts: PartsWith(reportScript),
	}
	if title == "" {
		p.Title = "Training runs"
	}
	var listed []*rundir.Listed
	var tests []float64
	for k, dir := range dirs {
		r, err := readReportRun(dir)
		if err != nil && k == len(dirs)-1 && len(p.Runs) == 0 {
			return nil, err // no run is left
		}
		if err != nil {
			unread(err)
			continue
		}
		p.Runs = append(p.Runs, r)
		listed = append(listed, r.Listed)
		if !r.Diverged {
			tests = append(tests, float64(r.Summary.Test))
		}
	}
	p.sort()
	p.nameRuns(dirs)
	p.Differ = rundir.Differ(listed)
	p.answer(tests)
	p.draw()
	return p, nil
}

// sort groups the runs by metric, the best by validation first, and gives them colors.
func (p *reportContents) sort() {
	slices.SortStableFunc(p.Runs, func(a, b *reportRun) int {
		s, t := &a.Summary, &b.Summary
		return cmp.Or(cmp.Compare(s.Metric, t.Metric),
			rundir.CompareMetric(s.Metric, float64(s.Val), float64(t.Val)))
	})
	for k, r := range p.Runs {
		if r.Color = k; k >= mostDrawn {
			r.Color = -1
		}
		if r.Profile != nil && r.Profile.Chart != nil {
			p.Memory = append(p.Memory, r.Profile.Chart)
		}
	}
}

// nameRuns names the runs by the parts of their paths that differ.
func (p *reportContents) nameRuns(dirs []string) {
	shared := filepath.Dir(filepath.Clean(dirs[0]))
	for _, r := range p.Runs {
		for {
			rel, err := filepath.Rel(shared, r.Summary.RunDir)
			if err == nil && filepath.IsLocal(rel) && rel != "." || shared == filepath.Dir(shared) {
				break
			}
			shared = filepath.Dir(shared)
		}
	}
	for _, r := range p.Runs {
		r.Name = r.Summary.RunDir
		if rel, err := filepath.Rel(shared, r.Summary.RunDir); err == nil {
			r.Name = rel
		}
	}
}

// onPage are the functions of the page's template.
var onPage = template.FuncMap{
	"percent": ui.Percent, "measured": ui.Measured[metric.Number], "score": ui.Measured[float64],
	"megabytes": ui.Megabytes,
	"count":     ui.Count[int64],
	"duration":  ui.Duration, "seconds": ui.Seconds, "brief": ui.Brief, "linkRows": ui.LinkRows,
	"used":      ui.Used,
	"words":     words,
	"largest":   func(bytes []int64) int64 { return slices.Max(append(bytes, 0)) },
	"bytesAt":   at(ui.Megabytes),
	"countAt":   at(ui.Count[int64]),
	"secondsAt": at(func(s float64) string { return ui.Duration(ui.Seconds(s)) }),
}

// words divides a name where a line may break: behind each mark in a path, a list or a setting.
func words(name string) (parts []string) {
	for {
		at := strings.IndexAny(name, "/_-=,.") + 1
		if at == 0 {
			return append(parts, name)
		}
		parts, name = append(parts, name[:at]), name[at:]
	}
}

// at writes an entry of a list, or a dash if there is none.
func at[T any](write func(T) string) func(list []T, k int) string {
	return func(list []T, k int) string {
		if k < len(list) {
			return write(list[k])
		}
		return "–"
	}
}

// write writes the page.
func (p *reportContents) write(to io.Writer) error {
	page, err := template.New("report").Funcs(onPage).Parse(reportPage)
	if err != nil {
		return err
	}
	return page.Execute(to, p)
}
