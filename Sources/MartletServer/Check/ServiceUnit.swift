import Configuration
import Glibc
import Platform

/// A systemd service of this machine that runs a broker: as whom, and with which configuration.
public struct ServiceUnit: Sendable, Equatable {
    /// `martlet.service`.
    public let name: String
    /// `User=`; root where the unit names nobody.
    public let userName: String
    /// What `-c` names in `ExecStart=`.
    let configurationFile: String
    /// `ProtectHome=yes`: the service sees nothing of the users' directories.
    let hidesHomes: Bool

    /// The installed service whose command names a configuration file; nil when none does.
    ///
    /// - Parameters:
    ///   - file: as it is named on the command line.
    ///   - root: what stands before the directories of systemd; empty on a machine.
    public static func running(_ file: String, root: String = "") -> ServiceUnit? {
        guard let wanted = resolved(file) else { return nil }
        return installed(root: root).first { resolved($0.configurationFile) == wanted }
    }

    /// The services of this machine that are called martlet, or martlet with something behind.
    public static func installed(root: String = "") -> [ServiceUnit] {
        let places = directories.map { root + $0 }
        var names: [String] = []
        for place in places {
            for name in self.names(in: place) where isOurs(name) && !names.contains(name) { names.append(name) }
        }
        return names.compactMap { ServiceUnit(name: $0, lines: lines(of: $0, in: places)) }
    }

    /// Where systemd looks, the first first.
    private static let directories = [
        "/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
        "/lib/systemd/system",
    ]

    /// In the order of systemd; none of a directory that is not there.
    private static func names(in directory: String) -> [String] {
        ((try? DiskFiles().names(inDirectory: directory)) ?? []).sorted()
    }

    private static func isOurs(_ name: String) -> Bool {
        name.hasSuffix(".service") && name.hasPrefix("martlet") && !name.hasSuffix("@.service")
    }

    /// A unit's lines, and those that its drop-ins add: the directory that comes first has its file.
    private static func lines(of name: String, in places: [String]) -> [Substring] {
        let candidates: [String] = places.map { "\($0)/\(name)" }
        guard let main = candidates.first(where: { FileAccess.obstacle(toReading: $0) == nil }) else { return [] }
        var files = [main]
        var added: Set<String> = []
        for place in places {
            for dropIn in names(in: "\(place)/\(name).d") where dropIn.hasSuffix(".conf") {
                if added.insert(dropIn).inserted { files.append("\(place)/\(name).d/\(dropIn)") }
            }
        }
        return files.flatMap { file -> [Substring] in
            guard let bytes = try? WholeFile.bytes(of: file, bytesMax: Limits.unitFileBytesMax) else { return [] }
            return String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        }
    }

    /// nil for a service without a command that names a configuration.
    init?(name: String, lines: [Substring]) {
        var values: [Substring: Substring] = [:]
        for line in lines {
            guard let sign = line.firstIndex(of: "="), line.first != "#", line.first != ";" else { continue }
            // An empty value takes back what stood before; of several commands the last one runs the broker.
            values[line[..<sign]] = line[line.index(after: sign)...]
        }
        let words = values["ExecStart"]?.split(separator: " ") ?? []
        guard let option = words.lastIndex(where: { $0 == "-c" || $0 == "--config-file" }), option + 1 < words.count else {
            return nil
        }
        self.name = name
        configurationFile = String(words[option + 1])
        userName = values["User"].flatMap { $0.isEmpty ? nil : String($0) } ?? "root"
        hidesHomes = ["yes", "true", "on", "1", "tmpfs"].contains(values["ProtectHome"] ?? "")
    }

    /// Why the service does not see a file that is there, as a sentence without its full stop; nil when it does.
    func blindness(for path: String) -> String? {
        let path = Self.resolved(path) ?? FullPath.of(path)
        guard hidesHomes, ["/home/", "/root/", "/run/user/"].contains(where: path.hasPrefix) else { return nil }
        return "the service \(name) does not see \(path) (ProtectHome=yes): put a copy into /etc/martlet and name that"
    }

    private static func resolved(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}
