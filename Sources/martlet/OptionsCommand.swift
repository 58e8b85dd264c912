import ArgumentParsing
import Configuration
import Platform

/// `martlet options`: prints what a configuration file may say.
struct OptionsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "options",
        abstract: "Print the options of the configuration file, or those whose names contain a text.",
        discussion: "For example: martlet options queue")

    @Flag(help: "Print each as a line of JSON, also those that have no effect.")
    var json = false

    @Argument(help: ArgumentHelp("A part of the options' names.", valueName: "text"))
    var part: String?

    func run() throws {
        let found = ConfigurationOption.all.filter { option in part.map { option.name.holds($0.lowercased()) } ?? true }
        guard !found.isEmpty else {
            Console.complain("Error: no option's name contains \"\(part ?? "")\".")
            throw ExitCode(1)
        }
        if json {
            for option in found { Console.say(option.json) }
        } else {
            Console.say(found.filter { $0.status == .supported && $0.canonicalName == nil }.map(\.entry).joined(separator: "\n\n"))
        }
    }
}

extension ConfigurationOption {
    /// As a person reads it: what to write, what it does, and what counts without it.
    fileprivate var entry: String {
        var text = "\(name.hasSuffix("_") ? name + "NAME" : name) \(shape)"
        for line in summary.split(separator: "\n") { text += "\n    \(line)" }
        if let defaultText { text += "\n    Default: \(defaultText)" }
        return text
    }

    /// As a program reads it.
    fileprivate var json: String {
        var fields: [(String, String?)] = [
            ("name", name), ("section", section.rawValue), ("shape", shape), ("default", defaultText), ("summary", summary),
            ("stands_for", canonicalName),
        ]
        switch status {
        case .supported: fields.append(("status", "supported"))
        case .deprecated(let remark): fields += [("status", "deprecated"), ("remark", remark)]
        case .withoutEffect(let remark): fields += [("status", "without effect"), ("remark", remark)]
        case .unavailable: fields.append(("status", "unavailable"))
        }
        let texts = fields.compactMap { name, value in value.map { "\"\(name)\":\(Self.quoted($0))" } }
        return "{" + texts.joined(separator: ",") + ",\"reload\":\(isReloadable),\"repeatable\":\(isRepeatable)}"
    }

    private static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": quoted += "\\\(scalar)"
            case "\n": quoted += "\\n"
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
