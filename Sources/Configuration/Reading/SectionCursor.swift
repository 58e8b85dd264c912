/// Where in a file the reader is. Each file has its own: the sections of an included file end with it.
struct SectionCursor: Sendable {
    /// The listener that listener options go to: an index into the drafts, of which the first is the default listener.
    var listener = 0
    /// The bridge that bridge options go to.
    var bridge: Int?
    /// The section that the last `listener` or `connection` line opened.
    var section = Section.none
    /// The plug-in that `plugin_opt_*` goes to.
    var plugin: Int?
    /// The file is the one that was named on the command line.
    var isMainFile: Bool

    enum Section: Sendable {
        case none
        case listener
        case bridge
    }
}
