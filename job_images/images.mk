# make images                the operator's image and the stage image for CPUs
# make image-NAME            one of them: operator, stage-cpu, stage-cuda, stage-tensorrt-llm
#
# IMAGE_PREFIX   what stands before the names, for example registry.example.com/autocompress
# IMAGE_ARGS     more for the builder, for example --build-arg BASE=docker.io/library/python@sha256:...
# BUILDER        buildah, docker or podman; the first that is there
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/autocompress/__init__.py)
IMAGE_PREFIX ?= localhost/autocompress
IMAGES ?= operator stage-cpu
IMAGE_ARGS ?=
BUILDER ?= $(firstword $(foreach program,buildah docker podman,$(if $(shell command -v $(program)),$(program))))

.PHONY: images
images: $(addprefix image-,$(IMAGES))

image-%: job_images/%.Containerfile
	@test -n "$(BUILDER)" || { echo "make images needs buildah, docker or podman; none is in PATH" >&2; exit 1; }
	$(BUILDER) build $(if $(filter buildah,$(notdir $(BUILDER))),--layers) --file $< --tag $(IMAGE_PREFIX)/$*:$(VERSION) \
	  --build-arg VERSION=$(VERSION) $(IMAGE_ARGS) .

# make image-archives        both images, and build/images/NAME.tar of each, for clusters without a registry
ARCHIVES ?= build/images

.PHONY: image-archives
image-archives: images
	@mkdir -p $(ARCHIVES)
	@rm -f $(IMAGES:%=$(ARCHIVES)/%.tar)
	set -e; for name in $(IMAGES); do \
	  image=$(IMAGE_PREFIX)/$$name:$(VERSION); \
	  case "$(notdir $(BUILDER))" in \
	    buildah) $(BUILDER) push --quiet $$image docker-archive:$(ARCHIVES)/$$name.tar:$$image;; \
	    *) $(BUILDER) save --output $(ARCHIVES)/$$name.tar $$image;; \
	  esac; \
	done
