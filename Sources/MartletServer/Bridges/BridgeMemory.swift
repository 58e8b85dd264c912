import Configuration
import Glibc
import JSON
import JSONReader
import Platform
import Security

/// What administrators have done to bridges while the broker ran, as it is kept over a restart: those that they added,
/// and which are paused.
///
///     {"bridges":[{"name":"b","options":{"address":["h:1883"],"topic":["# out 1"]}}],"paused":["b","other"]}
///
/// It stands in a file beside the store, which is for nobody else's eyes: there are passwords in it.
struct BridgeMemory: Equatable {
    /// In the order in which they were added.
    var sections: [BridgeSection] = []
    var paused: Set<String> = []

    /// Why the file cannot be used; the end of a sentence about it.
    struct Failure: Error, Equatable, CustomStringConvertible {
        let description: String
    }

    static func path(of persistence: PersistenceConfiguration) -> String {
        let directory = persistence.location ?? "."
        let store = persistence.storeName
        let name = store.hasSuffix(".db") ? String(store.dropLast(3)) : store
        return (directory.hasSuffix("/") ? directory : directory + "/") + name + "-bridges.json"
    }

    init() {}

    /// Reads the file; what is not there is empty.
    init(readingFrom path: String) throws(Failure) {
        let bytes: [UInt8]
        do throws(WholeFile.Failure) {
            bytes = try WholeFile.bytes(of: path, bytesMax: Limits.bridgeFileBytesMax)
        } catch {
            guard case .refused(let reason) = error, reason.errno == ENOENT else {
                throw Failure(description: "cannot be read: \(error)")
            }
            self.init()
            return
        }
        try self.init(bytes)
    }

    init(_ bytes: [UInt8]) throws(Failure) {
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(reading: bytes)
        } catch {
            throw Failure(description: "is not JSON: \(error)")
        }
        guard let bridges = value.object?["bridges"]?.array, let paused = value.object?["paused"]?.array else {
            throw Failure(description: "has no lists of bridges and of those that are paused")
        }
        self.paused = Set(paused.compactMap(\.string))
        for bridge in bridges {
            guard let name = bridge.object?["name"]?.string, let options = bridge.object?["options"]?.object else {
                throw Failure(description: "has a bridge without name or options")
            }
            do throws(BridgeSectionRefusal) {
                var section = try BridgeSection(name: name)
                for option in options.names {
                    try section.set(option, to: (options[option]?.array ?? []).compactMap(\.string))
                }
                sections.append(section)
            } catch {
                throw Failure(description: "has an invalid bridge \(name): \(error)")
            }
        }
    }

    mutating func setPaused(_ name: String, _ isPaused: Bool) {
        paused.remove(name)
        if isPaused { paused.insert(name) }
    }

    func write(to path: String) throws(Failure) {
        let bytes = Array(text.utf8)
        guard bytes.count <= Limits.bridgeFileBytesMax else { throw Failure(description: "would be too large") }
        do throws(FileReplacement.Failure) {
            try FileReplacement.write(bytes, to: path)
        } catch {
            throw Failure(description: error.description)
        }
    }

    var text: String {
        var object = JSONObject()
        object.set(
            "bridges",
            sections.map { section in
                var options = JSONObject()
                for line in section.lines { options.set(line.name, line.values) }
                var bridge = JSONObject()
                bridge.set("name", section.name)
                bridge.set("options", options)
                return bridge
            })
        object.set("paused", paused.sorted())
        return object.text + "\n"
    }
}

extension Limits {
    /// Bytes of the file with the bridges that administrators have added; a larger one is not read.
    static let bridgeFileBytesMax = 64 << 20
}
