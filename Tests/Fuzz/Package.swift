// swift-tools-version: 6.2
import PackageDescription

// Fuzzers of everything that reads what a stranger, an operator or a disk gives, apart from the product so that nobody who builds it
// needs them: libFuzzer, which measures which code an input reaches and changes those that reach something new.
//
// The targets of the product are compiled into them (links to their sources), so that all of it is measured and assertions hold though
// it is optimised. `Testing` is a stand-in for Swift Testing: what the test kit records as an issue ends the process.
//
//     ./run SECONDS [FUZZER …]

let house: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

/// A fuzzer is a function that takes bytes; libFuzzer has `main`.
func fuzzer(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(
        name: "fuzz-\(name)", dependencies: ["FuzzKit"] + dependencies, path: "Sources/\(name)", swiftSettings: house)
}

let package = Package(
    name: "fuzz",
    targets: [
        .target(name: "MQTTCodec", swiftSettings: house),
        .target(name: "Bytes", swiftSettings: house),
        .target(name: "HTTP", dependencies: ["Bytes"], swiftSettings: house),
        .target(name: "JSON", swiftSettings: house),
        .target(name: "BrokerCore", dependencies: ["Bytes", "JSON", "MQTTCodec"], swiftSettings: house),
        .target(name: "SeededRandom", swiftSettings: house),
        .target(
            name: "BrokerSimulation", dependencies: ["BrokerCore", "Bytes", "MQTTCodec", "SeededRandom"], swiftSettings: house),
        .target(name: "CLinux"),
        .target(name: "Platform", dependencies: ["CLinux"], swiftSettings: house),
        .target(name: "EpollLoop", dependencies: ["CLinux", "Platform"], swiftSettings: house),
        .target(
            name: "Transports", dependencies: ["Bytes", "CLinux", "COpenSSL", "EpollLoop", "HTTP", "Platform"], swiftSettings: house
        ),
        .target(
            name: "HTTPServer", dependencies: ["Bytes", "EpollLoop", "HTTP", "Platform", "Transports"], swiftSettings: house),
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl"),
        .systemLibrary(name: "CArgon2", pkgConfig: "libargon2"),
        .systemLibrary(name: "CIDN", pkgConfig: "libidn"),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib"),
        .systemLibrary(name: "CJansson", pkgConfig: "jansson"),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3"),
        .systemLibrary(name: "CXXHash"),
        .target(name: "Cryptography", dependencies: ["CIDN", "COpenSSL"], swiftSettings: house),
        .target(
            name: "Security",
            dependencies: ["BrokerCore", "Bytes", "CArgon2", "COpenSSL", "Cryptography", "MQTTCodec", "Platform"],
            swiftSettings: house),
        .target(name: "SQLite", dependencies: ["CSQLite"], swiftSettings: house),
        .target(
            name: "Persistence", dependencies: ["BrokerCore", "CSQLite", "CXXHash", "MQTTCodec", "Platform", "SQLite"],
            swiftSettings: house),
        .target(name: "JSONReader", dependencies: ["CJansson", "JSON"], swiftSettings: house),
        .target(
            name: "NATSClient",
            dependencies: ["Bytes", "Cryptography", "EpollLoop", "JSON", "JSONReader", "Platform", "Transports"],
            swiftSettings: house),
        .target(name: "Configuration", dependencies: ["Platform"], swiftSettings: house),
        .target(name: "Federation", dependencies: ["MQTTCodec"], swiftSettings: house),
        .target(name: "Cluster", dependencies: ["MQTTCodec"], swiftSettings: house),
        .target(
            name: "DynamicSecurity", dependencies: ["BrokerCore", "JSON", "JSONReader", "MQTTCodec", "Platform", "Security"],
            swiftSettings: house
        ),
        .target(name: "CDashboard", exclude: ["site"]),
        .target(name: "COpenAPI"),
        .target(
            name: "Administration",
            dependencies: [
                "BrokerCore", "Bytes", "COpenAPI", "Cryptography", "HTTP", "JSON", "JSONReader", "MQTTCodec", "Platform",
            ],
            exclude: ["openapi.json"], swiftSettings: house),
        .target(
            name: "MartletServer",
            dependencies: [
                "Administration", "BrokerCore", "Bytes", "CDashboard", "CZlib", "Cluster", "Configuration", "Cryptography",
                "DynamicSecurity", "EpollLoop", "Federation", "HTTP", "HTTPServer", "JSON", "JSONReader", "MQTTCodec", "NATSClient",
                "Persistence",
                "Platform", "Security", "Transports",
            ],
            swiftSettings: house),

        .target(name: "Testing", swiftSettings: house),
        .target(name: "TestBasics", dependencies: ["SeededRandom"], swiftSettings: house),
        .target(
            name: "MartletTestKit",
            dependencies: ["BrokerCore", "BrokerSimulation", "Bytes", "MQTTCodec", "TestBasics", "Testing"],
            exclude: ["StatementTrait.swift"],
            swiftSettings: house),
        .target(name: "FuzzKit", swiftSettings: house),

        fuzzer("codec", ["MQTTCodec"]),
        fuzzer("core", ["BrokerCore", "MQTTCodec", "MartletTestKit"]),
        fuzzer("websocket", ["Bytes", "Transports"]),
        fuzzer("http", ["HTTP"]),
        fuzzer("proxy", ["Bytes", "Transports"]),
        fuzzer("configuration", ["BrokerCore", "Configuration", "MartletServer", "MartletTestKit", "TestBasics"]),
        fuzzer("credentials", ["Security"]),
        fuzzer("access", ["BrokerCore", "MQTTCodec", "Security"]),
        fuzzer("scram", ["BrokerCore", "Cryptography", "MQTTCodec", "Security"]),
        fuzzer("mosquitto", ["BrokerCore", "MQTTCodec", "MartletTestKit", "Persistence"]),
        fuzzer("nats", ["NATSClient"]),
        fuzzer("rows", ["BrokerCore", "MQTTCodec", "MartletServer", "MartletTestKit", "TestBasics"]),
    ]
)
