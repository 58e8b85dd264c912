import BrokerCore
import BrokerModel
import Configuration
import FuzzKit
import MartletTestKit
import TestBasics

@testable import MartletServer

/// A main file and, behind zero bytes, two that it may include.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafeRawPointer, _ count: Int) -> CInt {
    let bytes = UnsafeRawBufferPointer(start: start, count: count)
    let parts = bytes.split(separator: 0, maxSplits: 2, omittingEmptySubsequences: false)
    var files = MemoryFiles()
    for (name, part) in zip(["m.conf", "a.conf", "d/b.conf"], parts) { files.files[name] = Array(part) }
    let reader = ConfigurationReader(files: files, environment: ["X": "1", "HOME": "/h"])
    let result = reader.read(path: "m.conf")
    expect(result == reader.read(path: "m.conf"), "it reads otherwise the second time")
    for text in result.texts { expect(!text.isEmpty && !text.utf8.contains(10), "a message of several lines: \(text)") }
    guard !result.hasErrors else { return 0 }
    checkMeaning(result)
    return 0
}

/// What is taken means something to the rest of the broker.
private func checkMeaning(_ result: ConfigurationResult) {
    let configuration = result.configuration
    expect(!configuration.listeners.isEmpty, "no listener")
    let settings = BrokerSettings(configuration, log: .standard)
    expect(settings.listeners.count == configuration.listeners.count, "listeners")
    _ = ConfigurationSupport.objections(to: result)
    let reload = ReloadedConfiguration(running: configuration, wanted: configuration)
    expect(reload.warnings.isEmpty, "it differs from itself: \(reload.warnings)")
    // What the settings say can be lived with.
    let shard = BrokerShard(
        index: 0, shardCount: 3, settings: settings, seed: 1, random: SeededGenerator(seed: 1),
        sessionCount: SimulatedSessionCount(), now: 1_000_000)
    let id = shard.connected(ConnectionInfo(address: "192.0.2.1"))
    let connect: [UInt8] = [0x10, 0x0E, 0, 4, 0x4D, 0x51, 0x54, 0x54, 5, 2, 0, 60, 0, 0, 1, 0x61]
    connect.withUnsafeBytes { shard.received($0, from: id) }
    _ = shard.nextDeadline
    shard.advance(to: 1_100_000)
    shard.apply(settings)
}
