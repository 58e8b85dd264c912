/// A file of options, one a line: the option, a blank, and all that follows as its value, as mosquitto's clients read it.
public struct OptionsFile {
    /// The longest file that is read: people write them.
    public static let bytesMax = 1 << 20

    /// The words of a line that says something.
    public struct Line: Equatable, Sendable {
        public let words: [String]

        init(_ words: [String]) { self.words = words }
    }

    /// Where a command's file is: what -o names, else the one of mosquitto's program in the user's configuration; nil if there is none.
    ///
    /// - `variable`: reads a variable of the environment.
    public static func path(
        for command: ClientCommand, _ words: [String], variable: (String) -> String?
    ) throws(ArgumentError) -> (path: String, mustExist: Bool)? {
        let places = words.prefix { $0 != "--" }.indices.filter { words[$0] == "-o" }
        guard places.count <= 1 else { throw ArgumentError("Error: Duplicate -o argument given.") }
        if let place = places.first {
            guard place + 1 < words.count else { throw ArgumentError("Error: -o argument given but no options file specified.") }
            return (words[place + 1], true)
        }
        guard let program = command.counterpart else { return nil }
        if let directory = variable("XDG_CONFIG_HOME") { return ("\(directory)/\(program)", false) }
        return variable("HOME").map { ("\($0)/.config/\(program)", false) }
    }

    /// The lines of a file's text that are no comments.
    public static func lines(_ text: String) -> [Line] {
        text.split(whereSeparator: \.isNewline).compactMap { line in
            guard line.first != "#" else { return nil }
            let words = line.drop { $0 == " " }.split(separator: " ", maxSplits: 1).map(String.init)
            guard let option = words.first else { return nil }
            // An option with several values, as no value of a single one may be split.
            if option == "-D" || option == "--property", words.count > 1 {
                return Line([option] + words[1].split(separator: " ", maxSplits: 3).map(String.init))
            }
            return Line(words)
        }
    }
}
