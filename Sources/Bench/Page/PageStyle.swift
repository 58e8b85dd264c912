/// How a page looks: in the light, in the dark, on paper.
enum PageStyle {
    static let text = """
        \(root("color-scheme: light dark; \(light)"))
        @media (prefers-color-scheme: dark) { \(root(dark)) }
        @media print { \(root("color-scheme: light; \(light)")) }
        * { box-sizing: border-box; }
        body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5;
          font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; font-variant-numeric: tabular-nums; }
        body > * { max-width: 62rem; margin-inline: auto; padding-inline: 1.5rem; }
        header { padding-top: 2.5rem; }
        h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.015em; text-wrap: balance; }
        h2 { font-size: 1.05rem; margin: 0; }
        p { margin: 0; }
        header p, figcaption p, footer, .notes { color: var(--soft); }
        .cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .8rem; margin: 1.6rem 0 0; padding: 0; }
        .cards div { background: var(--card); border-radius: .6rem; padding: .8rem 1rem; }
        .cards dt { color: var(--soft); font-size: .85rem; }
        .cards dd { margin: 0; font-size: 1.45rem; font-weight: 600; letter-spacing: -.01em; white-space: nowrap; }
        .cards .bad dd { color: var(--bad); }
        .notes { margin: 1rem 0 0; padding-left: 1.2rem; font-size: .9rem; }
        figure { margin: 2.4rem 0 0; }
        figcaption p { font-size: .9rem; }
        .scroll { overflow-x: auto; }
        svg { display: block; width: 100%; min-width: 40rem; height: auto; margin-top: .5rem; font-size: 12px; }
        .grid { stroke: var(--rule); } .mark, .part { stroke: var(--soft); } .part { stroke-dasharray: 2 4; }
        .tick { fill: var(--soft); } .name { font-weight: 600; }
        .line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
        .area { opacity: .13; stroke: none; }
        .line.one, .line.three { stroke: var(--one); } .line.two { stroke: var(--two); }
        .line.four { stroke: var(--four); } .line.five { stroke: var(--five); stroke-width: 1.5; stroke-dasharray: 1 4; }
        .line.three { stroke-dasharray: 7 4; }
        text.one, .area.one, .dot.one, text.three, .dot.three { fill: var(--one); } text.two, .area.two, .dot.two { fill: var(--two); }
        text.four, .dot.four { fill: var(--four); } text.five, .dot.five { fill: var(--five); }
        .point rect { fill: transparent; } .point line { stroke: var(--soft); opacity: 0; } .point:hover line { opacity: .6; }
        section { margin-top: 2.8rem; } .pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 2.4rem 3rem; align-items: start; }
        table { border-collapse: collapse; width: 100%; font-size: .9rem; }
        caption { text-align: left; font-weight: 600; font-size: 1.05rem; padding-bottom: .5rem; }
        th, td { text-align: left; vertical-align: top; padding: .32rem .8rem .32rem 0; border-top: 1px solid var(--rule); font-weight: normal; overflow-wrap: anywhere; }
        tbody th { color: var(--soft); width: 42%; } th.part-of { padding-left: 1.2em; }
        .series { max-height: 26rem; overflow: auto; margin-top: .6rem; } .series:focus-visible { outline: 2px solid var(--one); }
        .series table { width: auto; min-width: 100%; } .series th, .series td { width: auto; text-align: right; white-space: nowrap; overflow-wrap: normal; }
        .series thead th { position: sticky; top: 0; background: var(--paper); color: var(--soft); border-top: 0; }
        pre { background: var(--card); border-radius: .6rem; padding: .8rem 1rem; margin: .6rem 0 0; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; }
        footer { font-size: .85rem; padding-block: 3rem 2rem; }
        @media print { body > * { max-width: none; padding-inline: 0; } header { padding-top: 0; } figure, .cards div, tr { break-inside: avoid; }
          .series { max-height: none; overflow: visible; } .scroll { overflow: visible; } svg { min-width: 0; } }
        """

    private static func root(_ variables: String) -> String { ":root { \(variables) }" }

    private static let light =
        "--paper: #ffffff; --ink: #1b2026; --soft: #5b6570; --rule: #e4e7ea; --card: #f4f6f8; "
        + "--one: #1f6fb8; --two: #0f8069; --four: #b0500a; --five: #6d7681; --bad: #b42318;"
    private static let dark =
        "--paper: #14171b; --ink: #e8ebee; --soft: #9da8b3; --rule: #2a3037; --card: #1d2228; "
        + "--one: #6db3f2; --two: #44c9a5; --four: #f0a562; --five: #98a2ad; --bad: #ff8a80;"
}
