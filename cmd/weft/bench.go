package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"weft/internal/cores"
	"weft/internal/refusal"
	"weft/train/bench"
)

type benchCommand struct {
	threads int
	only    string
	quick   bool
}

// benchPart is a part of bench: what it trains, and how it shows a model and all of them.
type benchPart struct {
	runs  func(bench.Options) []bench.Run
	model func(io.Writer, bench.Model)
	json  func(bench.Report) any
}

var (
	benchKernels = benchPart{bench.Kernels, showKernels, func(r bench.Report) any {
		report := struct {
			Machine bench.Machine  `json:"machine"`
			Kernels []bench.Kernel `json:"kernels"`
		}{Machine: r.Machine}
		for _, m := range r.Models {
			report.Kernels = append(report.Kernels, m.Kernels...)
		}
		return report
	}}
	benchEpoch = benchPart{bench.Epochs, showEpoch, func(r bench.Report) any { return r }}
)

func newBench() *cobra.Command {
	c := &benchCommand{}
	cmd := &cobra.Command{
		Use:   "bench [kernels|epoch]",
		Short: "measure how close kernels and epochs come to this machine's limits",
		Long: `bench trains models for a few epochs, and measures each kernel call in them against the machine.

  kernels  each kernel against its bound, a time that follows from the machine's rates
  epoch    an epoch against the sum of its kernels, and against its bound

Without a name it does both. A fraction of 1 is as fast as the bound. Run nothing else on the machine meanwhile.`,
		Example: `  weft bench
  weft bench kernels --only gatv2
  weft bench kernels --json > kernels.json
  weft bench epoch --only gat`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownName(cmd, "part of bench", args[0])
		},
		RunE: c.run(c.both),
	}
	c.addFlags(cmd)
	cmd.AddCommand(
		newBenchPart(benchKernels, &cobra.Command{
			Use:   "kernels",
			Short: "each kernel of some models against a bound from this machine's rates",
			Long: `kernels trains five models of three layers for a few epochs, in float32 and without dropout, on a uniform graph of 200,000
vertices of degree 15. Of each kernel call that takes a noticeable part of an epoch it prints the shortest time, and
bound ÷ time. It measures the machine's rates with the same threads before.

The bound is bytes that are read ÷ rate of reads + bytes that are written ÷ rate of writes + rows that are gathered · time of such
a row + operations of dense products ÷ the rate of the best product. Rows are taken to come from memory, the first cache line of
each for itself: those of few columns may be found in a cache, and are then faster than the bound. What attention and norms
compute is not in it.

It takes some minutes.`,
			Example: `  weft bench kernels
  weft bench kernels --only '^gat' --threads 1
  weft bench kernels --json > kernels.json`,
		}),
		newBenchPart(benchEpoch, &cobra.Command{
			Use:   "epoch",
			Short: "an epoch of three models against the sum of its kernels, and against its bound",
			Long: `epoch trains GraphSAGE, GAT and GCN of three layers for a few epochs, in float32 and in bfloat16, without dropout, on a uniform
graph of 200,000 vertices of degree 15 and on one of skewed degrees (rmat) of a million vertices. The fraction is the kernels' share
of the fastest epoch; the rest is the time of the program around them.

The bound is that of bench kernels, where of what kernels pass over in order only that counts which products and sums along edges
need to read and to write. Norms, activations and the loss are not in it. The parts are added up, although a product computes while
its rows pass: an epoch may be a little below its bound.

It takes some minutes and up to 10 GB of memory.`,
			Example: `  weft bench epoch
  weft bench epoch --only 'sage.*bf16 uniform'
  weft bench epoch --json > epoch.json`,
		}))
	return cmd
}

// newBenchPart completes the command of a part.
func newBenchPart(part benchPart, cmd *cobra.Command) *cobra.Command {
	c, asJSON := &benchCommand{}, false
	c.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the results as one JSON object")
	cmd.Args = arguments(0, 0)
	cmd.RunE = c.run(func(ctx context.Context, out io.Writer, o bench.Options) error {
		if !asJSON {
			return part.print(ctx, out, o)
		}
		report, err := part.measure(ctx, io.Discard, o)
		if err != nil {
			return err
		}
		return printJSON(out, part.json(report))
	})
	return cmd
}

// measure measures, and shows each model when it is known.
func (p benchPart) measure(ctx context.Context, show io.Writer, o bench.Options) (bench.Report, error) {
	return bench.Measure(ctx, o, p.runs(o), func(m bench.Machine) { showRates(show, m) },
		func(m bench.Model) { p.model(show, m) })
}

func (p benchPart) print(ctx context.Context, out io.Writer, o bench.Options) error {
	_, err := p.measure(ctx, out, o)
	return err
}

func (c *benchCommand) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&c.threads, "threads", 0, "threads to measure with, 0: all cores")
	flags.StringVar(&c.only, "only", "", "measure only the models whose \"model precision graph\" matches "+
		"this `regexp`")
	flags.BoolVar(&c.quick, "quick", false, "small graphs and few epochs: seconds, for a first look")
}

// run reads the flags, and lets a signal end the measurement.
func (c *benchCommand) run(measure func(ctx context.Context, out io.Writer,
	o bench.Options) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		o := bench.Options{
			Threads: cmp.Or(c.threads, cores.Count()), Quick: c.quick,
			CPU: procEntry("/proc/cpuinfo", "model name"),
		}
		if c.threads < 0 || c.threads > 1<<12 {
			return refusal.Errorf("--threads %d: give between 1 and %d, or 0 for all cores", c.threads, 1<<12)
		}
		if c.only != "" {
			var err error
			if o.Only, err = regexp.Compile(c.only); err != nil {
				return refusal.Errorf("--only %s: %w", c.only, err)
			}
		}
		endWithReader()
		ctx, stop := untilSignal(cmd.Context(), func(s os.Signal) {
			fmt.Fprintf(cmd.ErrOrStderr(), "weft: %s: stopping after the epoch under way; interrupt "+
				"again to stop at once\n", s)
		}, nil)
		defer stop()
		return measure(ctx, cmd.OutOrStdout(), o)
	}
}

// both shows the kernels and then the epochs. With --only there may be none of one of them.
func (c *benchCommand) both(ctx context.Context, out io.Writer, o bench.Options) error {
	if len(benchKernels.runs(o)) > 0 {
		if err := benchKernels.print(ctx, out, o); err != nil || len(benchEpoch.runs(o)) == 0 {
			return err
		}
	}
	return benchEpoch.print(ctx, out, o)
}

func showRates(show io.Writer, m bench.Machine) {
	fmt.Fprintf(show, "%s, %d cores, %d threads, kernels for %s\n", cmp.Or(m.CPU, runtime.GOARCH), m.Cores,
		m.Threads, m.SIMD)
	fmt.Fprintf(show, "read %.1f GB/s, write %.1f GB/s, gather %.1f GB/s, single cache lines %.1f GB/s\n",
		m.Read/1e9, m.Write/1e9, m.Gather/1e9, m.Lines/1e9)
	fmt.Fprintf(show, "dense products %.0f GFLOP/s, of bfloat16 by %s %.0f GFLOP/s\n", m.Flops/1e9,
		m.BFloat16Products, m.BFloat16Flops/1e9)
}

func showKernels(show io.Writer, m bench.Model) {
	fmt.Fprintf(show, "\n%-48s %9s %9s %9s  of the bound\n", m.Model, "time", "GFLOP/s", "GB/s")
	for _, k := range m.Kernels {
		operations := "–"
		if k.GFLOPS > 0 {
			operations = fmt.Sprintf("%.1f", k.GFLOPS)
		}
		fmt.Fprintf(show, "  %-46s %9s %9s %9.1f  %s %3.0f %% %s\n", k.Name+" "+k.Shape,
			duration(seconds(k.Seconds)), operations, k.GBytesPerSec, bar(k.Fraction, 20), 100*k.Fraction,
			k.Bound)
	}
}

func showEpoch(show io.Writer, m bench.Model) {
	fmt.Fprintf(show, "\n%s in %s on %s\n", m.Model, m.Precision, m.Graph)
	fmt.Fprintf(show, "  epoch %s, its kernels %s  %s %3.0f %%\n", duration(seconds(m.EpochSeconds)),
		duration(seconds(m.KernelSeconds)), bar(m.Fraction, 20), 100*m.Fraction)
	fmt.Fprintf(show, "  %.2f times its bound of %s: products %s, gathered rows %s, streamed rows %s\n",
		m.TimesBound, duration(seconds(m.BoundSeconds)), duration(seconds(m.Bound.Products)),
		duration(seconds(m.Bound.Gathered)), duration(seconds(m.Bound.Streamed)))
	for _, k := range m.Kernels {
		fmt.Fprintf(show, "    %-46s %3d × %9s  %s %3.0f %%\n", k.Name+" "+k.Shape, k.Times,
			duration(seconds(k.Share*m.EpochSeconds/float64(k.Times))), bar(k.Share, 20), 100*k.Share)
	}
}

// bar draws a fraction between 0 and 1 with a number of cells.
func bar(fraction float64, cells int) string {
	full := min(max(int(fraction*float64(cells)+0.5), 0), cells)
	return strings.Repeat("▇", full) + strings.Repeat("▁", cells-full)
}
