package planning

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/pflag"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/internal/document"
	"weft/internal/refusal"
	"weft/train/planner"
	"weft/train/setting"
)

// What the workers of a plan run on: this machine, or cards and links that are described.

// machine describes what the workers run on, with the given links; nil: the links between the ranks. All
// ranks call it together.
func (p *planCommand) machine(r cli.Ranks, o *setting.Options,
	links *planner.Links,
) (planner.Machine, error) {
	sharers := p.workers
	switch {
	case p.hardware != nil:
		return p.hardware.Machine(p.workers, o.DeviceMessages), nil
	case links != nil: // the links are of other machines
		sharers = 1
	case o.OnCard() && r.Comm.Size() == 1: // links of cards pass messages on
		links = &planner.Links{}
	}
	m, err := r.Machine(sharers, links)
	m.Sharers = cmp.Or(p.sharers, min(m.Sharers, p.workers))
	m.Card = p.card
	return m, err
}

// cardValue is the value of --device, which may also be a card whose rates are published.
type cardValue struct {
	pflag.Value
	card **planner.CardSpec
}

// Set implements pflag.Value.
func (v cardValue) Set(text string) error {
	if *v.card = planner.Published(text); *v.card != nil {
		text = string(setting.AllCards)
	}
	if err := v.Value.Set(text); err != nil {
		return fmt.Errorf("%w, or a card: %s", err, strings.Join(planner.PublishedNames(), ", "))
	}
	return nil
}

// readRates reads the rates of a card from a file.
func (p *planCommand) readRates(device *pflag.Flag) (err error) {
	switch {
	case p.rates == "":
		return nil
	case p.card != nil:
		return refusal.Errorf("--device-rates %s: --device %s has rates already; leave one of them out", p.rates,
			p.card.Name)
	case !device.Changed:
		if err = device.Value.Set(string(setting.AllCards)); err != nil {
			return err
		}
	case !setting.Device(device.Value.String()).IsCard():
		return refusal.Errorf("--device-rates %s: --device %s is no card; leave one of them out", p.rates,
			device.Value)
	}
	if p.card, err = planner.ReadCard(p.rates); err != nil {
		return refusal.Errorf("--device-rates %w", err)
	}
	return nil
}

// readMachine reads what --machine names. It replaces the flags that say a part of it.
func (p *planCommand) readMachine(flags *pflag.FlagSet) (err error) {
	if p.named == "" {
		return nil
	}
	for _, name := range []string{"device", "device-rates", "link", "per-machine", "at"} {
		if flags.Changed(name) {
			return refusal.Errorf("--machine %s: has what --%s says; leave one of them out", p.named, name)
		}
	}
	if p.hardware, err = planner.ReadHardware(p.named); err != nil {
		return refusal.Errorf("--machine %w", err)
	}
	if p.workers = cmp.Or(p.workers, p.hardware.Workers()); p.workers > p.hardware.Workers() {
		return refusal.Errorf("--workers %d: --machine %s has %s; take at most so many", p.workers, p.named,
			ui.Counted(p.hardware.Workers(), "card", "cards"))
	}
	if err = flags.Lookup("device").Value.Set(string(setting.AllCards)); err != nil {
		return err
	}
	p.card = &p.hardware.Card
	return nil
}

// payload is the share of TCP's bytes that are not headers, in frames of 1514 bytes.
const payload = 1448.0 / 1514

// linksOf reads the value of --link: a rate, or a file with the links that an earlier plan printed as JSON.
func linksOf(text string) (*planner.Links, error) {
	rate, is := cli.BytesPerSecond(text)
	if !is {
		return linksIn(text)
	}
	links := planner.OfRate(payload * rate)
	return &links, nil
}

// linksIn reads the links from a file that weft plan --json has written.
func linksIn(path string) (*planner.Links, error) {
	const most = 16 << 20
	text, err := document.Read(path, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refusal.Errorf("--link %s: neither a rate from 1 B/s to 1 PB/s, as in 100mbit, 10gbps or "+
			"12.5GB/s, nor a file that weft plan --json has written", path)
	} else if err != nil {
		return nil, refusal.Errorf("--link %w", err)
	}
	var written struct{ Links *planner.Links }
	err = json.Unmarshal(text, &written)
	if l := written.Links; err != nil || l == nil || min(l.Sends, l.Receives) <= 0 ||
		min(l.Latency, l.Handling, float64(l.Eager)) < 0 {
		return nil, refusal.Errorf("--link %s: the file has no links; weft plan --json writes them", path)
	}
	return written.Links, nil
}
