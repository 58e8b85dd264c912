// swift-tools-version: 6.2
import PackageDescription

/// The rules that every target keeps: the Swift 6 language mode, no warning left standing, and imports that say what they bring.
let house: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

/// The targets on the way of a message. Dynamic exclusivity checks cost 23 ns at each access of a field that another module can
/// see; debug and test builds keep them.
let hot: [SwiftSetting] = house + [.unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))]

let package = Package(
    name: "martlet",
    products: [
        .executable(name: "martlet", targets: ["martlet"])
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
    ],
    targets: [
        // Pure: the standard library only.
        .target(name: "MQTTCodec", swiftSettings: hot),
        .target(name: "BrokerCore", dependencies: ["MQTTCodec"], swiftSettings: hot),
        .target(name: "ClientCore", dependencies: ["MQTTCodec"], swiftSettings: hot),

        // What the kernel gives.
        .target(name: "CLinux"),
        .target(name: "EpollLoop", dependencies: ["CLinux"], swiftSettings: hot),
        .target(name: "Transports", dependencies: ["COpenSSL", "EpollLoop"], swiftSettings: hot),

        // Other people's libraries.
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CArgon2", pkgConfig: "libargon2", providers: [.apt(["libargon2-dev"])]),
        .systemLibrary(name: "CIDN", pkgConfig: "libidn", providers: [.apt(["libidn-dev"])]),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        // A header alone: nothing to link.
        .systemLibrary(name: "CXXHash", providers: [.apt(["libxxhash-dev"])]),

        // Who may do what.
        .target(
            name: "Security", dependencies: ["BrokerCore", "CArgon2", "CIDN", "COpenSSL", "EpollLoop", "MQTTCodec"],
            swiftSettings: house),

        // What stays when the broker ends.
        .target(
            name: "Persistence", dependencies: ["BrokerCore", "CSQLite", "CXXHash", "EpollLoop", "MQTTCodec"],
            swiftSettings: house),

        // What the operator gives.
        .target(name: "Configuration", swiftSettings: house),

        // The shell around the core, and the command.
        .target(
            name: "MartletServer",
            dependencies: ["BrokerCore", "Configuration", "EpollLoop", "MQTTCodec", "Persistence", "Security", "Transports"],
            swiftSettings: hot),
        .target(
            name: "Bench",
            dependencies: [
                "CLinux", "ClientCore", "EpollLoop", "MQTTCodec", "Transports",
                .product(name: "Histogram", package: "hdrhistogram-swift"),
            ],
            swiftSettings: hot),
        .executableTarget(
            name: "martlet",
            dependencies: [
                "Bench", "BrokerCore", "Configuration", "MQTTCodec",
                "MartletServer",
                "Persistence",
                "Security",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: house),

        // Tests, and the doubles that they share.
        .target(
            name: "MartletTestKit", dependencies: ["BrokerCore", "MQTTCodec"], path: "Tests/MartletTestKit",
            swiftSettings: house),
        .executableTarget(
            name: "growth", dependencies: ["BrokerCore", "MQTTCodec"], path: "Tests/Growth", swiftSettings: house,
            linkerSettings: [.linkedLibrary("m")]),
        .testTarget(name: "MQTTCodecTests", dependencies: ["MQTTCodec", "MartletTestKit"], swiftSettings: house),
        .testTarget(
            name: "BrokerCoreTests", dependencies: ["BrokerCore", "MQTTCodec", "MartletTestKit"], swiftSettings: house),
        .testTarget(
            name: "ConformanceTests", dependencies: ["BrokerCore", "MQTTCodec", "MartletTestKit"],
            exclude: ["Malformed/Cases", "Statements"], swiftSettings: house),
        .testTarget(
            name: "ClientCoreTests", dependencies: ["ClientCore", "MQTTCodec", "MartletTestKit"], swiftSettings: house),
        .testTarget(name: "BenchTests", dependencies: ["Bench", "MQTTCodec"], swiftSettings: house),
        .testTarget(name: "EpollLoopTests", dependencies: ["CLinux", "EpollLoop"], swiftSettings: house),
        .testTarget(
            name: "TransportsTests", dependencies: ["COpenSSL", "EpollLoop", "MartletTestKit", "Transports"], swiftSettings: house),
        .testTarget(name: "ConfigurationTests", dependencies: ["Configuration"], swiftSettings: house),
        .testTarget(
            name: "SecurityTests", dependencies: ["BrokerCore", "EpollLoop", "MQTTCodec", "MartletTestKit", "Security"],
            swiftSettings: house),
        .testTarget(
            name: "PersistenceTests",
            dependencies: ["BrokerCore", "CSQLite", "EpollLoop", "MQTTCodec", "MartletTestKit", "Persistence"],
            swiftSettings: house),
        .testTarget(
            name: "MartletServerTests",
            dependencies: [
                "BrokerCore", "Configuration", "EpollLoop", "MQTTCodec", "MartletServer", "MartletTestKit", "Security",
                "Transports",
            ],
            swiftSettings: house),
    ]
)
