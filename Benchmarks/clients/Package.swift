// swift-tools-version: 6.2
import PackageDescription

// The client library in the jobs that Benchmarks/compare-clients gives to each library: as users of the package have
// it.
let package = Package(
    name: "clients",
    dependencies: [.package(name: "martlet", path: "../..")],
    targets: [
        .executableTarget(name: "martlet-client", dependencies: [.product(name: "MartletClient", package: "martlet")])
    ]
)
