// Package reports compares runs: the commands runs and report.
package reports

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/train/rundir"
)

type reportCommand struct {
	out    string
	title  string
	card   bool
	groups []string
}

// NewReport makes the command report.
func NewReport() *cobra.Command {
	c := &reportCommand{}
	cmd := &cobra.Command{
		Use:   "report RUN|FOLDER…",
		Short: "write a page about runs: curves, classes, memory, messages, settings that differ",
		Long: `report writes one HTML file about runs, or about all runs below folders. It holds their results, their settings and those in which they differ,
the curves of loss, metrics, learning rate, seconds and memory, precision, recall and the confusion matrix of each class, what each worker
took, sent and waited, the memory over an epoch, and where its time went by layer and worker. The file needs no network, and opens in any browser, light or dark.

With --card it writes a model card in Markdown, of runs that differ in seed and split alone: data, split, settings, metrics with 95 % intervals
over the runs, classes, groups (--groups), confusion, calibration, thresholds, cost, and what the model was not tried on.`,
		Example: "  weft report runs/first --out first.html\n  weft report runs/seeds " +
			"runs/other --out both.html\n  weft report runs/seeds --card --groups city --out card.md",
		ValidArgsFunction: cli.CompleteRun,
		Args:              cli.Arguments(1, math.MaxInt),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
	}
	cmd.Flags().StringVar(
		&c.out,
		"out",
		"",
		"`file` for the page, .html or .htm, or for the card, .md (default: "+
			"standard output); an existing file is overwritten",
	)
	cmd.Flags().StringVar(&c.title, "title", "", "`text` of its heading (default: that it is about "+
		"training runs)")
	cmd.Flags().BoolVar(&c.card, "card", false, "write a model card in Markdown, in the place of the page")
	cli.NamesVar(
		cmd.Flags(),
		&c.groups,
		"groups",
		"`columns` of categories of the table of vertices or edges, "+
			"for whose groups the card has the metric; END.COLUMN is that of an end of the edges",
	)
	return cmd
}

// checkOut refuses a file that cannot be written, or whose ending is of another format, and flags of the card
// without a card.
func (c *reportCommand) checkOut() error {
	switch {
	case !c.card && len(c.groups) > 0:
		return refusal.Errorf(
			"--groups %s: groups are those of a card; give --card, too",
			strings.Join(c.groups, ","),
		)
	case !c.card:
		return cmp.Or(cli.CheckFile("out", c.out), CheckPageName(c.out))
	case c.out == "":
		return nil
	case isPage(c.out):
		return refusal.Errorf("--out %s: the card is Markdown; name a file that ends in .md", c.out)
	}
	return cli.CheckFile("out", c.out)
}

// checkApart refuses a file of --out that is one of the runs, or of their graphs.
func (c *reportCommand) checkApart(dirs []string) error {
	out := cli.Outputs{{Flag: "out", Path: c.out}}
	for _, dir := range dirs {
		if err := out.Check(rundir.Paths(dir)...); err != nil {
			return err
		}
		if run, _, _, err := rundir.Read(dir); err == nil { // the page says what is wrong with a run
			if err := out.CheckApartFromGraph(run.Store, run.Store); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *reportCommand) run(cmd *cobra.Command, args []string) error {
	if err := c.checkOut(); err != nil {
		return err
	}
	say := func(err error) { fmt.Fprintln(cmd.ErrOrStderr(), ui.OneLine(err)) }
	var dirs, without []string
	var damaged []error
	for _, arg := range args {
		runs, err := rundir.List(arg, func(err error) { damaged = append(damaged, err) })
		if err != nil {
			return refusal.Errorf("%s: %w; name a run or a folder of runs", arg, err)
		}
		for _, r := range runs {
			if dir := filepath.Clean(r.RunDir); !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
		if len(runs) == 0 {
			without = append(without, arg)
		}
	}
	if len(dirs) == 0 && len(damaged) == 1 {
		return refusal.Errorf("%w", damaged[0])
	}
	for _, err := range damaged {
		say(err)
	}
	if len(dirs) == 0 {
		return refusal.Errorf("%s: no run is there; weft train DATASET begins one",
			strings.Join(without, ", "))
	}
	for _, arg := range without {
		if !rundir.IsBeside(arg) {
			say(fmt.Errorf("%s: no run is there; it is left out", arg))
		}
	}
	if err := c.checkApart(dirs); err != nil {
		return err
	}
	if c.card {
		return c.writeCard(cmd, dirs, say)
	}
	page, err := newReportPage(dirs, c.title, time.Now(), say)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(c.out, page.write); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: a page about %s\n", ui.Printable(c.out),
		ui.Counted(len(page.Runs), "run", "runs"))
	sayNotMeasured(page.Runs, say)
	return nil
}

// sayNotMeasured says why the predictions of some runs are not measured, once for each reason.
func sayNotMeasured(runs []*reportRun, say func(error)) {
	reported := map[string]bool{}
	for _, r := range runs {
		if why := r.NotMeasured; why != "" && !reported[why] {
			reported[why] = true
			say(fmt.Errorf("%s: %s%s", r.Summary.RunDir, strings.ToLower(why[:1]), why[1:]))
		}
	}
}

// writeCard writes a model card.
func (c *reportCommand) writeCard(cmd *cobra.Command, dirs []string, say func(error)) error {
	card, err := newCard(dirs, c.title, c.groups)
	switch {
	case err != nil:
		return err
	case c.out == "":
		return card.writeTo(cmd.OutOrStdout())
	}
	if err := atomicfile.Write(c.out, card.writeTo); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: a model card of %s\n", ui.Printable(c.out),
		ui.Counted(len(card.Runs), "run", "runs"))
	for _, r := range card.Runs[:1] { // what it says about one run is true of all
		sayNotMeasured([]*reportRun{r.reportRun}, say)
	}
	return nil
}

// CheckPageName refuses a file of --out whose ending is not a page's.
func CheckPageName(out string) error {
	if info, err := os.Stat(out); !isPage(out) && (err != nil || info.Mode().IsRegular()) {
		return refusal.Errorf("--out %s: the page is HTML; name a file that ends in .html or .htm", out)
	}
	return nil
}

// isPage reports whether a file has an ending of HTML.
func isPage(path string) bool {
	end := strings.ToLower(filepath.Ext(path))
	return end == ".html" || end == ".htm"
}
