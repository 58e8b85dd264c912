// swift-tools-version: 6.2
import PackageDescription

// Microbenchmarks of the parts on the way of a message, apart from the product so that nobody who builds it needs them.
//
// BrokerCore is compiled into the executable itself (a link to its sources): so its inner structures can be measured,
// which no other module sees, and they are optimised as in the broker, which `@testable` would prevent.

let hot: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release)),
]

let package = Package(
    name: "benchmarks",
    targets: [
        .target(name: "Bytes", swiftSettings: hot),
        .target(name: "JSON", swiftSettings: hot),
        .target(name: "MQTTCodec", swiftSettings: hot),
        .target(name: "BrokerModel", dependencies: ["Bytes", "MQTTCodec"], swiftSettings: hot),
        .target(name: "ClientCore", dependencies: ["Bytes", "MQTTCodec"], swiftSettings: hot),
        .target(name: "CLinux"),
        .systemLibrary(name: "CLibraries"),
        .target(name: "Platform", dependencies: ["CLibraries", "CLinux"], swiftSettings: hot),
        .target(name: "CAllocations"),
        .executableTarget(
            name: "microbench",
            dependencies: ["BrokerModel", "Bytes", "CAllocations", "ClientCore", "JSON", "MQTTCodec", "Platform"],
            swiftSettings: hot),
    ]
)
